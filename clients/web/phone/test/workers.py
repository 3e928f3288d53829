"""Service workers of a browser, which selenium cannot reach: through the browser's own port for developers."""

import itertools
import json
import urllib.request

import websocket

from waiting import until


class Tools:
    """A connection to one page or worker."""

    def __init__(self, url):
        self.socket = websocket.create_connection(url, suppress_origin=True, timeout=60)
        self.numbers = itertools.count(1)
        self.events = []

    def send(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := json.loads(self.socket.recv())).get("id") != number:
            self.events.append(message)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        return message["result"]

    def run(self, script):
        """The value of an expression, or of its promise."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def close(self):
        self.socket.close()


# Keeps what was shown. Asking Chromium for its notifications while one is on its way to the screen makes it forget that one.
KEEP = """
if (!self.told) {
  self.told = [];
  const show = registration.showNotification.bind(registration);
  registration.showNotification = async (title, options) => {
    await show(title, options);
    told.push(title);
  };
}
"""
SHOWN = """
registration.getNotifications().then((all) => all.map(({ title, body, actions, data }) =>
  ({ title, body, actions: actions.map(({ action }) => action), kind: data.kind })))
"""


class Worker:
    """The service worker of an origin."""

    def __init__(self, browser, origin):
        self.address = browser.driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
        self.origin = origin

    def targets(self, kind):
        with urllib.request.urlopen(f"http://{self.address}/json/list", timeout=10) as answer:
            return [target for target in json.load(answer) if target["type"] == kind]

    def push(self, note):
        """Delivers a push, as the browser does."""
        tools = Tools(self.targets("page")[0]["webSocketDebuggerUrl"])
        try:
            tools.send("ServiceWorker.enable")
            # Workers that are there already are reported as events, which come with the next answer at the latest.
            def active():
                tools.send("Runtime.evaluate", expression="1")
                return self._active(tools.events)

            number = until("an active worker", active)
            tools.send("ServiceWorker.startWorker", scopeURL=f"{self.origin}/")
            self.run(KEEP)
            tools.send("ServiceWorker.deliverPushMessage", origin=self.origin, registrationId=number, data=json.dumps(note))
        finally:
            tools.close()

    def _active(self, events):
        """The number of the registration, once its worker may have pushes."""

        def told(name, member):
            return [one for event in events if event["method"] == name for one in event["params"][member]]

        versions = told("ServiceWorker.workerVersionUpdated", "versions")
        active = {version["registrationId"] for version in versions if version["status"] == "activated"}
        registrations = told("ServiceWorker.workerRegistrationUpdated", "registrations")
        ours = [one["registrationId"] for one in registrations if one["scopeURL"] == f"{self.origin}/"]
        return next((number for number in reversed(ours) if number in active), None)

    def shown(self, title):
        """The notifications, once one with this title was shown."""
        until(f"the notification “{title}”", lambda: title in self.run("told"))
        return self.run(SHOWN)

    def run(self, script):
        """Runs a script in the worker."""

        def running():
            return [target for target in self.targets("service_worker") if target["url"].startswith(self.origin)]

        tools = Tools(until("the worker to run", running)[0]["webSocketDebuggerUrl"])
        try:
            return tools.run(script)
        finally:
            tools.close()

"""A Firefox window that is a phone, driven by WebDriver BiDi: Debian has no geckodriver, and Firefox speaks that itself."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import websocket
from browsers import Phone
from waiting import until

PREFERENCES = {
    # A tone and a picture that moves, without asking.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    # A machine without a network has no other address.
    "media.peerconnection.ice.loopback": True,
    # Nothing else is loaded.
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


def program():
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One Firefox with a profile of its own and one window."""

    def __init__(self):
        self.profile = pathlib.Path(tempfile.mkdtemp(prefix="callmesh-phone-test-"))
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        (self.profile / "user.js").write_text("\n".join(lines))
        command = [program(), "--headless", "--no-remote", "--profile", self.profile, "--remote-debugging-port=0", "about:blank"]
        with open(self.profile / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.socket, self.number, self.errors = None, 0, []
        try:
            port = until("the port of Firefox", self._port)
            self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}/session", suppress_origin=True, timeout=60)
            self.command("session.new", capabilities={})
            self.command("session.subscribe", events=["log.entryAdded"])
            self.context = self.command("browsingContext.getTree")["contexts"][0]["context"]
        except BaseException:
            self.quit()
            raise

    def _port(self):
        assert self.process.poll() is None, f"Firefox has ended: {(self.profile / 'log').read_text()}"
        file = self.profile / "WebDriverBiDiServer.json"
        return json.loads(file.read_text())["ws_port"] if file.exists() and file.stat().st_size else None

    def command(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message["type"] == "event":
                entry = message["params"]
                if entry["level"] == "error":
                    self.errors.append(entry["text"])
            elif message["id"] == self.number:
                if message["type"] == "error":
                    raise AssertionError(f"{method}: {message['error']}: {message['message']}")
                return message["result"]

    def quit(self):
        if self.socket:
            self.socket.close()
        if self.process.poll() is None:
            # With its children.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    # The part of selenium's driver that `Phone` and `Media` use.

    def get(self, address):
        self.command("browsingContext.navigate", context=self.context, url=address, wait="complete")

    def execute_script(self, script, *arguments):
        return self._evaluate(f"(function() {{ {script} }}).apply(null, {json.dumps(arguments)})")

    def execute_async_script(self, script, *arguments):
        return self._evaluate(
            f"new Promise((done) => (function() {{ {script} }}).apply(null, [...{json.dumps(arguments)}, done]))"
        )

    def _evaluate(self, expression):
        expression = f"(async () => JSON.stringify((await {expression}) ?? null))()"
        done = self.command("script.evaluate", expression=expression, target={"context": self.context}, awaitPromise=True)
        return json.loads(done["result"]["value"]) if done["type"] == "success" else None


class FirefoxPhone(Phone):
    """The window of a Firefox, in which a user is signed in."""

    def __init__(self, firefox):
        self.firefox = firefox

    @property
    def driver(self):
        return self.firefox

    def text(self):
        return self.js("return document.body.innerText")

    def has(self, selector):
        return self.js("return !!document.querySelector(arguments[0])", selector)

    def sees_not(self, selector):
        until(f"no {selector}", lambda: not self.has(selector))
        return self

    def press(self, selector):
        script = "const it = document.querySelector(arguments[0]); if (!it || it.disabled) return false; it.click(); return true"
        until(lambda: f"{selector} to press at {self.name}; it says: {self.text()!r}", lambda: self.js(script, selector))
        return self

    def state(self):
        return self.js("return document.querySelector('.card.call')?.dataset.state")

    def errors(self):
        self.js("return null")  # What was reported until now is read with the answer.
        errors, self.firefox.errors = self.firefox.errors, []
        return errors

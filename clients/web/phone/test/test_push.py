"""Calls that ring while no page is open: the gateway pushes to a push service, and the browser's worker shows it.

Chromium without a screen has neither a push service of its own nor anybody who clicks. So the page gets a subscription of
the tests' push service, what arrives there is given to the worker as the browser would, and clicks are events that a script
makes. The worker, its notifications and its requests are real.
"""

import json
import queue

from stage import StageTest
from waiting import until
from workers import SHOWN

# In place of the browser's own way to a push service.
SUBSCRIBE = """
PushManager.prototype.getSubscription = async () => null;
PushManager.prototype.subscribe = async (options) => {
  globalThis.subscribedWith = [...new Uint8Array(options.applicationServerKey)];
  return { toJSON: () => (SUBSCRIPTION) };
};
"""
CLICK = """
registration.getNotifications().then(([notification]) => {
  // Only a person's click may open a window: the test opens what is asked for.
  clients.openWindow = async (url) => void (globalThis.opened = url);
  const event = new NotificationEvent("notificationclick", { notification, action: "ACTION" });
  // An event of a script may not prolong the worker's life. The notification that rang does.
  event.waitUntil = (work) => (globalThis.clicked = work);
  dispatchEvent(event);
})
"""


class Pushed(StageTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual(self.stage.push_service.violations, []))

    def away(self, user="bob"):
        """The user has allowed notifications, and closed the page. Gives the subscription and the browser's worker."""
        phone = self.phone(user)
        origin = self.root(user)
        service = self.stage.push_service
        subscription = service.subscribe()
        command = phone.driver.execute_cdp_cmd
        command("Browser.grantPermissions", {"origin": origin, "permissions": ["notifications"]})
        self.addCleanup(lambda: phone.driver.execute_cdp_cmd("Browser.resetPermissions", {}))
        self.addCleanup(phone.at_start(SUBSCRIBE.replace("SUBSCRIPTION", json.dumps(subscription.json))))
        phone.driver.refresh()
        phone.ready()
        until("the registration", lambda: phone.js("return callmeshPhone.pushes.isRegistered"))
        key = phone.js("return subscribedWith")
        self.assertEqual(bytes(key), service.public_point)
        self.addCleanup(self.forget, phone)
        phone.leave()
        return subscription, phone.worker(origin)

    def forget(self, phone):
        """The next tests have a browser without pushes."""
        self.phone("bob")
        until("the registration", lambda: phone.js("return callmeshPhone.pushes.isRegistered"))
        phone.js("return callmeshPhone.pushes.disable()")
        phone.js("return navigator.serviceWorker.getRegistration().then((one) => one.unregister())")

    def pushed(self, subscription, worker, purpose):
        """Waits for a push of this purpose, and hands all of them on to the worker."""
        while True:
            try:
                note = subscription.pushes.get(timeout=60)
            except queue.Empty:
                raise AssertionError(f"no push: {purpose}") from None
            worker.push(note)
            if note["callmesh"]["purpose"] == purpose:
                return note

    def rung(self):
        subscription, worker = self.away()
        ann = self.phone("ann", ring=60)
        ann.call("Bob")
        self.pushed(subscription, worker, "ring")
        shown = worker.shown("Incoming call")
        self.assertEqual(shown, [{"title": "Incoming call", "body": "Ann", "actions": ["answer", "decline"], "kind": "ring"}])
        return ann, subscription, worker

    def click(self, worker, action):
        worker.run(CLICK.replace("ACTION", action))

    def test_declined_without_a_page(self):
        ann, _, worker = self.rung()
        self.click(worker, "decline")
        ann.sees("Bob declined")
        until("no notification", lambda: worker.run(SHOWN) == [])

    def test_answered(self):
        ann, _, worker = self.rung()
        self.click(worker, "answer")
        address = until("a page to be asked for", lambda: worker.run("globalThis.opened"))
        self.assertIn("/phone/?user=bob", address)
        bob = self.phone_at(address, "bob")
        for phone in (ann, bob):
            phone.talks().grows("audio", "energy")
        ann.do("hang-up")
        bob.sees("Ann hung up")

    def test_the_notification_goes_away_when_the_caller_gives_up(self):
        ann, subscription, worker = self.rung()
        ann.do("hang-up").sees("You gave up before an answer")
        # A note that the call has ended comes as well, before or after it.
        self.pushed(subscription, worker, "missedNotice")
        shown = [(one["title"], one["body"]) for one in worker.shown("Missed call")]
        self.assertEqual(shown, [("Missed call", "Ann")])

    def test_the_notification_says_where_the_call_was_answered(self):
        # In another browser: where a page can be seen, that one rings, and no notification.
        ipad = self.phone("bob", "tablet", in_browser=0)
        ann, subscription, worker = self.rung()
        ipad.rings().do("answer").talks()
        ann.talks()
        note = self.pushed(subscription, worker, "ended")
        self.assertEqual(note["callmesh"]["reason"], "answeredElsewhere")
        shown = worker.shown("Answered on another device")
        self.assertEqual([(one["title"], one["body"]) for one in shown], [("Answered on another device", "Bob's tablet")])

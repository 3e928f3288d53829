"""Several devices of one user, and calls that go from one to another."""

from phones import PhoneTest
from waiting import until

# Records what the clock of the call says from now on.
CLOCKS = """
globalThis.clocks = [];
new MutationObserver(() => {
  const clock = document.querySelector(".clock");
  if (clock) clocks.push(clock.lastChild.data);
}).observe(document.getElementById("phone"), { subtree: true, childList: true, characterData: true });
"""
# A page of an app in which one tab at a time is the device.
ONE_DEVICE = """
const get = async (path) => (await fetch(`/development/${path}`)).json();
const tab = (globalThis.tab = { refused: [], asked: 0, gives: false });
import("/callmesh.js").then(async ({ Device, holdDevice }) => {
  const { edges } = await get("settings");
  const device = new Device({ edges, device: "ann-tabs", getToken: async () => (await get("token?user=ann")).token });
  device.on("refused", ({ error }) => tab.refused.push(error.code));
  tab.device = device;
  await holdDevice(device.id, {
    onHeld: (ask) => (tab.ask = ask),
    onAsked() {
      tab.asked += 1;
      if (tab.gives) device.leave();
      return tab.gives;
    },
  });
  device.start();
});
"""


class Windows(PhoneTest):
    def bobs(self):
        return [self.phone("bob", device) for device in ("browser", "iPad", "laptop")]

    def ring_all(self):
        ann, bobs = self.phone("ann"), self.bobs()
        ann.call("Bob")
        for bob in bobs:
            bob.rings()
        ann.sees("Ringing on Bob's")
        return ann, bobs

    def test_one_answers_and_the_others_say_where(self):
        ann, (browser, ipad, laptop) = self.ring_all()
        ipad.do("answer").talks()
        ann.talks().sees("Bob on Bob's iPad · you on this device")
        for other in (browser, laptop):
            other.sees("Answered on Bob's iPad").sees_not(".card.ringing")
            other.sees("You are in a call with Ann on Bob's iPad.")

    def test_decline_here(self):
        ann, (browser, ipad, laptop) = self.ring_all()
        browser.do("decline-here").sees("Declined here. Your other devices ring on.")
        for other in (ipad, laptop):
            self.assertTrue(other.has(".card.ringing"))
        laptop.do("answer").talks()
        ann.talks()
        ipad.sees("Answered on Bob's laptop")

    def test_decline_everywhere(self):
        ann, (browser, ipad, laptop) = self.ring_all()
        ipad.do("decline").sees("You declined")
        ann.sees("Bob declined")
        for other in (browser, laptop):
            other.sees("Declined on Bob's iPad").sees_not(".card.ringing")

    def test_pull(self):
        ann, (browser, ipad, laptop) = self.ring_all()
        browser.do("answer").talks()
        ann.talks().counts()
        browser.counts(3)
        laptop.js(CLOCKS)
        laptop.press(".banner button").talks().grows("audio", "energy").counts()
        self.assertNotEqual(laptop.js("return clocks[0]"), "0:00")
        self.assertTrue(laptop.has("[data-do='hang-up']"))
        browser.sees("The call goes on on Bob's laptop")
        ann.sees("Bob on Bob's laptop").talks().grows("audio", "energy").plays()
        laptop.plays()


class Copied(PhoneTest):
    """A tab that is duplicated begins with the device id of the first one, and draws another."""

    def device(self, phone):
        return phone.js("return callmeshPhone.device.id")

    def watch(self, phone):
        phone.js("globalThis.lost = []; for (const name of ['detached', 'refused']) callmeshPhone.device.on(name, () => lost.push(name))")

    def test_both_ring_and_none_displaces_the_other(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        self.watch(ann)
        ann.js("sessionStorage.setItem('mark', 'copied')")
        first = self.device(ann)
        copy = self.copy_of(ann)
        self.watch(copy)
        self.assertEqual(copy.js("return sessionStorage.getItem('mark')"), "copied")
        self.assertNotEqual(self.device(copy), first)
        bob.call("Ann")
        for phone in (ann, copy):
            phone.rings()
        copy.do("answer").talks().grows("audio", "energy")
        ann.sees("Answered on Ann's browser", "You are in a call with Bob on Ann's browser.").sees_not(".card.ringing")
        bob.talks().grows("audio", "energy")
        for phone in (ann, copy):
            self.assertEqual(phone.js("return lost"), [])
        second = self.device(copy)
        for phone, own in ((copy, second), (ann, first)):
            phone.driver.refresh()
            phone.ready()
            self.assertEqual(self.device(phone), own)
        copy.talks().grows("audio", "energy")


class OneDevice(PhoneTest):
    """The same id in two tabs: the app has chosen that they are one device."""

    def test_a_further_tab_waits_and_takes_over(self):
        first, second = self.phone("ann"), self.phone("ann", "iPad")
        state = "return tab.device?.state"

        def attached(tab):
            until(lambda: f"being attached; refused: {tab.js('return tab.refused')}", lambda: tab.js(state) == "attached")

        first.js(ONE_DEVICE)
        attached(first)
        second.js(ONE_DEVICE)
        until("the second tab to learn of the first one", lambda: second.js("return !!tab.ask"))
        second.js("tab.ask()")
        until("the first tab to be asked", lambda: first.js("return tab.asked > 0"))
        self.assertEqual([tab.js(state) for tab in (first, second)], ["attached", "stopped"])
        first.js("tab.gives = true")
        second.js("tab.ask()")
        attached(second)
        self.assertEqual(first.js(state), "stopped")
        for tab in (first, second):
            self.assertEqual(tab.js("return tab.refused"), [])
        second.js("tab.device.stop()")


class Handed(PhoneTest):
    def test_blind(self):
        ann, bob = self.connected()
        carl = self.phone("carl")
        bob.do("transfer").do("transfer-carl")
        carl.rings().sees("Bob hands a call with Ann over to you")
        bob.sees("Ringing at Carl on Carl's browser")
        carl.do("answer").talks().grows("audio")
        bob.sees("Handed over to Carl")
        ann.talks().sees("Carl on Carl's browser").grows("audio", "energy").plays()
        carl.plays()

    def test_declined(self):
        ann, bob = self.connected()
        carl = self.phone("carl")
        bob.do("transfer").do("transfer-carl")
        carl.rings().do("decline")
        bob.sees("Carl declined. You still have the call.").grows("audio")
        self.assertEqual(ann.state(), "connected")

    def test_after_asking(self):
        ann, bob = self.connected()
        carl = self.phone("carl")
        bob.do("transfer").do("ask-carl")
        ann.sees("Bob has put you on hold")
        carl.rings().do("answer").talks()
        bob.sees("Hand Ann over").grows("audio")
        bob.do("hand-over").sees("Handed over to Carl")
        ann.sees("Carl on Carl's browser").talks().grows("audio", "energy")
        carl.sees("Ann on Ann's browser").talks().grows("audio", "energy")
        self.assertFalse(carl.has(".card.ringing"))


class Second(PhoneTest):
    def test_hold_and_answer(self):
        ann, bob = self.connected()
        carl = self.phone("carl")
        carl.call("Bob")
        bob.rings().sees("A second call: you are in a call already.").do("answer")
        ann.sees("Bob has put you on hold")
        carl.talks().grows("audio")
        bob.sees("Carl on Carl's browser").press(".banner [data-do='hold']")
        carl.sees("Bob has put you on hold")
        ann.sees("In a call").grows("energy")
        bob.sees("Ann on Ann's browser")

    def test_busy(self):
        _, bob = self.connected()
        carl = self.phone("carl")
        carl.call("Bob")
        bob.rings().do("busy").sees_not(".card.ringing")
        carl.sees("Bob is busy")
        self.assertEqual(bob.state(), "connected")

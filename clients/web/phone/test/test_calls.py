"""Two browsers call each other, and what comes between them and a call."""

from phones import PhoneTest
from waiting import until

# Holds the next description back until the test opens the gate.
HOLD_BACK = """
const [call] = callmeshPhone.device.calls;
call.sendDescription = async (text) => {
  await new Promise((go) => (globalThis.letGo = go));
  delete call.sendDescription;
  return call.sendDescription(text);
};
"""


class Talking(PhoneTest):
    def test_sound_and_pictures_flow_both_ways(self):
        ann, bob = self.connected(video=True)
        for phone in (ann, bob):
            phone.grows("audio", "energy", "frames").sees("In a call")
        ann.sees("Bob on Bob's browser · you on this device")
        ann.do("hang-up").sees("You hung up")
        bob.sees("Ann hung up")

    def test_mute_and_camera(self):
        ann, bob = self.connected(video=True)
        bob.grows("energy", "frames")
        ann.do("mute").sees("Unmute")
        bob.silent().grows("frames")
        ann.do("mute").sees("Mute")
        bob.grows("energy")
        ann.do("camera").sees("Camera on")
        until("no picture of Ann", lambda: bob.has(".remote.unseen"))
        ann.grows("frames")
        ann.do("camera").sees("Camera off")
        until("a picture of Ann", lambda: not bob.has(".remote.unseen"))
        bob.grows("frames", "energy")

    def test_cameras_in_a_call_without_video(self):
        ann, bob = self.connected()
        # Both at once: neither offer has arrived when the other one is made.
        for phone in (ann, bob):
            phone.js(HOLD_BACK)
            phone.do("camera").sees("Camera off")
        for phone in (ann, bob):
            until(lambda: f"an offer of {phone.name}", lambda: phone.js("return !!globalThis.letGo"))
        for phone in (ann, bob):
            phone.js("letGo()")
        for phone in (ann, bob):
            phone.grows("audio", "energy", "frames").plays(video=True)
        for phone, other in ((ann, bob), (bob, ann)):
            phone.do("camera").sees("Camera on")
            until(f"no picture at {other.name}", lambda: other.has(".remote.unseen"))
        for _ in range(3):
            bob.do("camera").sees("Camera off")
            ann.grows("frames").plays(video=True)
            bob.do("camera").sees("Camera on")
            until("no picture of Bob", lambda: ann.has(".remote.unseen"))

    def test_another_microphone_and_another_camera(self):
        ann, bob = self.connected(video=True)
        used = (
            "const { media } = callmeshPhone.line(callmeshPhone.device.calls[0].id);"
            "return media.connection.getSenders().map(({ track }) => track?.getSettings().deviceId)"
        )
        before = ann.js(used)
        ann.do("media")
        for kind in ("audio", "video"):
            options = f"return [...document.querySelectorAll('#choose-{kind} option')].map((option) => option.value)"
            other = until(f"two devices of {kind}", lambda: [one for one in ann.js(options) or [] if one not in before])[-1]
            ann.choose(f"#choose-{kind}", other)
            until(f"the other device of {kind}", lambda: other in ann.js(used))
        speakers = "return [...document.querySelectorAll('#choose-output option')].map((option) => option.value)"
        other = until("two loudspeakers", lambda: (ann.js(speakers) or [])[1:])[-1]
        ann.choose("#choose-output", other)
        until("the other loudspeaker", lambda: ann.js("return document.querySelector('video.remote').sinkId") == other)
        bob.grows("energy", "frames").plays(video=True)

    def test_hold(self):
        ann, bob = self.connected()
        ann.do("hold").sees("On hold")
        bob.sees("Ann has put you on hold").silent()
        ann.do("hold").sees("In a call")
        bob.sees("In a call").grows("energy")

    def test_reload_in_mid_call(self):
        ann, bob = self.connected(video=True)
        for phone, other in ((bob, ann), (ann, bob)):
            phone.driver.refresh()
            phone.ready()
            phone.talks().grows("audio", "frames")
            other.talks().grows("audio", "frames")
            for one in (phone, other):
                one.plays(video=True)
        bob.do("hang-up")
        ann.sees("Bob hung up")


    def test_reload_while_it_rings(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        ann.call("Bob")
        bob.rings()
        for phone in (ann, bob):
            phone.driver.refresh()
            phone.ready()
        bob.rings()
        ann.sees("Ringing")
        bob.do("answer").talks().grows("audio", "energy")
        ann.talks().grows("audio", "energy")


class InVain(PhoneTest):
    def test_cancel(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        ann.call("Bob")
        bob.rings()
        ann.sees("Ringing on Bob's browser").do("hang-up").sees("You gave up before an answer")
        bob.sees("Ann gave up").sees_not(".card.ringing")

    def test_timeout(self):
        ann, bob = self.phone("ann", ring=5), self.phone("bob")
        ann.call("Bob")
        bob.rings()
        ann.sees("Bob did not answer")
        bob.sees("Missed call from Ann").sees_not(".card.ringing")

    def test_do_not_disturb(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        bob.choose("#disturb", "on").sees("Do not disturb until I change it")
        until("the rule", lambda: bob.has(".choice.strong"))
        ann.call("Bob").sees("Bob is busy")
        bob.choose("#disturb", "off")
        until("no rule", lambda: not bob.has(".choice.strong"))
        ann.call("Bob")
        bob.rings()

    def test_nobody_there(self):
        ann = self.phone("ann")
        ann.type("#dial", "nobody").press(".dial button").sees("nobody has never signed in")

    def test_history(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        before = bob.unread()
        ann.call("Bob")
        bob.rings()
        ann.do("hang-up").sees("You gave up before an answer")
        until("the missed call to be counted", lambda: bob.unread() == before + 1)
        bob.press("#tab-history").sees("Missed call").press("#mark-read")
        until("nothing unread", lambda: bob.unread() == 0)
        bob.sees_not("#mark-read")
        ann.press("#tab-history").sees("You gave up before an answer")


class Crossing(PhoneTest):
    def test_two_call_each_other(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        # Both dial before either can know of the other's call: their connections are held back meanwhile.
        for phone in (ann, bob):
            phone.js("globalThis.gate = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);"
                     "navigator.mediaDevices.getUserMedia = (wish) => new Promise((go) => (globalThis.open = go))"
                     ".then(() => gate(wish))")
        ann.call("Bob")
        bob.call("Ann")
        for phone in (ann, bob):
            phone.js("open()")
        for phone in (ann, bob):
            phone.talks().sees("In a call").sees_not(".card.ringing")
        for phone in (ann, bob):
            phone.grows("audio", "energy")
            self.assertEqual(phone.js("return callmeshPhone.device.calls.length"), 1)
        bob.do("hang-up").sees("You hung up")
        ann.sees("Bob hung up")

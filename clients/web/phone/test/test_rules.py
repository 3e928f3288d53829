"""What users have decided about their calls: the page's controls set it, and all windows say what came of it."""

from phones import PhoneTest


class Forwarded(PhoneTest):
    """Ann has two windows, and lets her calls go to Carl."""

    def setUp(self):
        super().setUp()
        self.ann, self.ipad, self.bob, self.carl = (
            self.phone(*one) for one in (("ann",), ("ann", "iPad"), ("bob",), ("carl",))
        )
        self.addCleanup(self.ann.js, "return callmeshPhone.device.setRules({})")

    def forward(self, situation, user):
        """Has Ann fill in a field of the dialog."""
        self.ann.press("#forward").type(f"#forward-{situation}", user)

    def save(self, text):
        """Saves it. Both windows of Ann say so."""
        self.ann.press("dialog form button").sees_not("dialog")
        for window in (self.ann, self.ipad):
            window.sees(text)

    def carl_answers(self):
        """The call rings at Carl, and he answers. Bob sees where, and hangs up."""
        self.carl.rings().sees("Bob is calling for Ann")
        self.bob.sees("Ringing at Carl, on Carl's browser")
        self.carl.do("answer").talks()
        self.bob.talks().grows("audio", "energy").sees("Carl on Carl's browser")
        self.bob.do("hang-up").sees("You hung up")

    def test_always_and_not_any_more(self):
        self.forward("always", "Carl")
        self.save("All calls go to Carl")
        self.bob.call("Ann")
        self.carl_answers()
        for window in (self.ann, self.ipad):
            self.assertFalse(window.has(".card.call"))
            window.press("#tab-history").sees("Carl answered").press("#tab-contacts")
        self.ipad.press("#forward-off")
        for window in (self.ann, self.ipad):
            window.sees("Calls go to nobody else")
        self.assertEqual(self.ipad.js("return document.activeElement.id"), "forward")
        self.bob.call("Ann").sees("Ringing on Ann's")
        self.ann.rings().do("decline")
        self.bob.sees("Ann declined")
        self.assertFalse(self.carl.has(".card.ringing"))

    def test_when_nobody_answers(self):
        self.forward("onNoAnswer", "carl")
        self.ann.choose("#forward-seconds", "5")
        self.save("Calls go to Carl when nobody answers")
        self.bob.call("Ann")
        for window in (self.ann, self.ipad):
            window.rings()
        self.carl_answers()
        for window in (self.ann, self.ipad):
            window.sees("Missed call from Bob").sees_not(".card.ringing")
            window.press("#tab-history").sees("Missed call, Carl answered").press("#tab-contacts")
        self.bob.press("#tab-history").sees("Carl answered")
        self.bob.press("#tab-contacts")
        self.ann.press("#forward-off").sees("Calls go to nobody else")

    def test_when_busy(self):
        self.forward("onBusy", "carl")
        self.save("Calls go to Carl when you are busy")
        self.ann.choose("#disturb", "on")
        self.ipad.sees("Do not disturb until I change it")
        self.bob.call("Ann")
        self.carl_answers()
        for window in (self.ann, self.ipad):
            self.assertFalse(window.has(".card.call, .card.ringing"))

    def test_when_no_device_can_be_reached(self):
        self.forward("onUnreachable", "carl")
        self.save("Calls go to Carl when no device can be reached")
        # Her next window takes the rules back.
        self.addCleanup(self.phone, "ann")
        for window in (self.ann, self.ipad):
            window.leave()
        self.bob.call("Ann")
        self.carl_answers()
        # The way back is there, and Ann is, too.
        self.ann.driver.back()
        self.ann.ready()
        self.bob.call("Ann")
        self.ann.rings()

    def test_what_cannot_be_is_said_in_the_dialog(self):
        self.ann.tab_to("Forward calls…").enter().sees("When you are busy, or not to be disturbed")
        self.ann.type("#forward-onBusy", "Ann").enter().sees("You cannot forward calls to yourself.")
        self.assertEqual(self.ann.js("return document.activeElement.id"), "forward-onBusy")
        self.assertIn(("alert", "You cannot forward calls to yourself."), self.ann.read_out())
        self.assertEqual(self.ann.faults(), [])
        self.ann.escape().sees_not("dialog")
        self.assertEqual(self.ann.js("return document.activeElement.id"), "forward")
        self.ann.sees("Calls go to nobody else")

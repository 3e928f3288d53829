"""Several devices of one user, and calls that go from one to another."""

from phones import PhoneTest


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
        ann.talks()
        laptop.press(".banner button").talks().grows("audio", "energy")
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

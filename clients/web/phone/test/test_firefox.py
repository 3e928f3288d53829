"""A call between Chromium and Firefox, which do not negotiate media in the same way."""

import unittest

import firefox
from phones import PhoneTest, at_close

_shared = {}


def fox():
    """The one Firefox of this run."""
    if "fox" not in _shared:
        _shared["fox"] = firefox.Firefox()
        at_close(_shared["fox"].quit)
    return _shared["fox"]


@unittest.skipUnless(firefox.program(), "SKIPPED: there is no Firefox (Debian: apt-get install firefox-esr)")
class BetweenBrowsers(PhoneTest):
    def firefox_of(self, user):
        phone = firefox.FirefoxPhone(fox())
        self.used.append(phone)
        return phone.sign_in(self.root(user), user, f"{user.capitalize()}'s Firefox")

    def talk(self, caller, callee, name):
        caller.call(name, video=True)
        callee.rings().do("answer-video")
        for phone in (caller, callee):
            phone.talks().grows("audio", "energy", "frames").plays(video=True)

    def test_chromium_calls(self):
        ann, bob = self.phone("ann"), self.firefox_of("bob")
        self.talk(ann, bob, "Bob")
        bob.do("camera").sees("Camera on")
        ann.do("mute").sees("Unmute")
        bob.silent()
        ann.do("hang-up").sees("You hung up")
        bob.sees("Ann hung up")

    def test_firefox_calls(self):
        ann, bob = self.phone("ann"), self.firefox_of("bob")
        self.talk(bob, ann, "Ann")
        ann.do("camera").sees("Camera on")
        ann.do("camera").sees("Camera off")
        bob.grows("frames", "energy")
        bob.do("hang-up").sees("You hung up")
        ann.sees("Bob hung up")

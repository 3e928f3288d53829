"""What all tests of the phone share: two browsers, in which Ann, Bob and Carl have windows."""

import os
import re
import unittest

from browsers import Browser, Phone

ROOT = os.environ.get("PHONE_URL", "http://localhost:8090").rstrip("/")
_browsers = []
_windows = {}
_closers = []


def browser(number):
    while len(_browsers) <= number:
        _browsers.append(Browser())
    return _browsers[number]


def at_close(closer):
    """Has this called when all tests are over, the last one first."""
    _closers.append(closer)


def close():
    """Ends what the tests have started."""
    for one in _browsers:
        one.quit()
    _browsers.clear()
    _windows.clear()
    while _closers:
        _closers.pop()()


class PhoneTest(unittest.TestCase):
    """Ann has the first browser. Everybody else has windows of the second one."""

    # The errors that a browser may report because the test causes them, as a regular expression.
    expects_errors = None

    def setUp(self):
        self.used = []
        self.addCleanup(self.leave)

    def phone(self, user, device="browser", in_browser=None, **query):
        """A window in which the user is signed in. The same user and device have the same window in all tests.

        `in_browser`: 0 for Ann's, 1 for the other one, in place of the user's own.
        """
        key = (user, device)
        if key not in _windows:
            number = (0 if user == "ann" else 1) if in_browser is None else in_browser
            _windows[key] = Phone(browser(number))
        self.used.append(_windows[key])
        return _windows[key].sign_in(self.root(user), user, f"{user.capitalize()}'s {device}", **query)

    def copy_of(self, phone):
        """A copy of the user's window, for this test."""
        copy = phone.copy()
        self.used.append(copy)
        self.addCleanup(phone.browser.free.append, copy.handle)
        return copy

    def phone_at(self, address, user):
        """The user's window with another page of the phone: one that a notification opens."""
        phone = _windows[(user, "browser")]
        phone.driver.get(address)
        phone.ready()
        return phone

    def root(self, _user):
        """The origin of the user's page."""
        return ROOT

    def leave(self):
        """Hangs up, lets "do not disturb" go, and signs out."""
        errors = []
        for phone in self.used:
            for call in phone.js("return callmeshPhone?.device.calls.map((call) => call.id) ?? []") or []:
                phone.js("callmeshPhone.hangUp(arguments[0])", call)
            errors += phone.errors()
        for phone in self.used:
            phone.leave()
        if self.expects_errors:
            errors = [error for error in errors if not re.search(self.expects_errors, error)]
        self.assertEqual(errors, [], "the browser has reported errors")

    def connected(self, video=False):
        """Ann and Bob in a call, with sound both ways."""
        ann, bob = self.phone("ann"), self.phone("bob")
        ann.call("Bob", video=video)
        bob.rings().do("answer-video" if video else "answer")
        for phone in (ann, bob):
            phone.talks().grows("audio").plays(video)
        return ann, bob

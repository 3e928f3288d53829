"""Who cannot see the page, or has no mouse: what the browser tells screen readers, and a call with the keyboard alone."""

from phones import PhoneTest
from waiting import until


class Heard(PhoneTest):
    """The browser's own tree of what a screen reader reads."""

    def hears(self, phone, *wanted):
        """Waits until the tree has all of these roles and names."""
        found = []

        def has_all():
            found[:] = phone.read_out()
            return all(one in found for one in wanted)

        until(lambda: f"{wanted} at {phone.name}; there are {found}", has_all)

    def test_a_call_as_it_is_read_out(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        self.hears(ann, ("button", "Call Bob"), ("button", "Call Bob with video"), ("tab", "Contacts"), ("main", ""))
        ann.call("Bob")
        self.hears(
            bob, ("alertdialog", "Ann is calling"), ("heading", "Ann is calling"), ("button", "Answer"),
            ("button", "Decline"), ("button", "Not on this device"),
        )  # fmt: skip
        self.hears(ann, ("region", "Call with Bob"), ("status", "Ringing on Bob's browser"))
        bob.do("answer").talks()
        ann.talks()
        for phone, other in ((ann, "Bob"), (bob, "Ann")):
            self.hears(phone, ("region", f"Call with {other}"), ("button", "Mute"), ("button", "Hang up"), ("status", "In a call"))
        bob.do("hang-up")
        self.hears(ann, ("status", "Bob hung up"))

    def test_a_call_with_the_keyboard_alone(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        ann.tab_to("Call Bob").enter()
        bob.rings()
        bob.tab_to("Answer").enter()
        for phone in (ann, bob):
            phone.talks().grows("audio")
        bob.tab_to("Mute").enter().sees("Unmute")
        ann.tab_to("Hang up").enter().sees("You hung up")
        bob.sees("Ann hung up")

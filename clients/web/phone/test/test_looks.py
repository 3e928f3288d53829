"""The main states, wide and narrow, light and dark: nothing is cut off, and with PHONE_SHOTS there are pictures."""

from phones import PhoneTest

SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
# axe-core takes a second. Colours differ between light and dark, and what is shown between wide and narrow.
CHECKED = {("wide", "light"), ("narrow", "dark")}


class Looks(PhoneTest):
    def look(self, phone, name):
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                phone.show(width, height, scheme)
                phone.shot(f"{name}-{size}-{scheme}")
                spill = phone.js("return document.documentElement.scrollWidth - window.innerWidth")
                self.assertLessEqual(spill, 0, f"{name} is wider than a {size} page")
                self.assertEqual(phone.nameless(), [], f"{name}: elements without a name for screen readers")
                if (size, scheme) in CHECKED:
                    self.assertEqual(phone.faults(), [], f"{name}: {size}, {scheme}")
        phone.show()

    def test_states(self):
        ann, bob, carl = self.phone("ann"), self.phone("bob"), self.phone("carl")
        self.look(ann, "contacts")
        ann.press("#tab-history").press("#tab-history")
        self.look(ann, "history")
        ann.press("#tab-contacts").press("#forward")
        ann.type("#forward-always", "ann").enter().sees("You cannot forward calls to yourself.")
        self.look(ann, "forward")
        ann.escape().call("Bob", video=True).sees("Ringing on Bob's browser")
        bob.rings()
        self.look(ann, "calling")
        self.look(bob, "ringing")
        bob.do("answer-video")
        bob.talks().grows("frames")
        ann.talks().grows("frames")
        self.look(ann, "video")
        ann.do("transfer")
        self.look(ann, "transfer")
        ann.press("dialog > button").do("media")
        ann.sees("Microphone")
        self.look(ann, "devices")
        ann.press("dialog > button").do("camera").sees("Camera on")
        carl.call("Bob")
        bob.rings()
        self.look(bob, "second")
        bob.do("answer")
        carl.talks()
        bob.sees("Go on with this call")
        self.look(bob, "two-calls")
        self.look(ann, "held")
        carl.do("hang-up").sees("You hung up")
        bob.sees("Carl hung up")
        self.look(carl, "ended")

    def test_elsewhere(self):
        ann, bob = self.connected()
        ipad = self.phone("bob", "iPad").sees("You are in a call with Ann on Bob's browser.")
        self.look(ipad, "elsewhere")
        ann.do("hang-up")
        ipad.sees_not(".banner")

    def test_signing_in(self):
        ann = self.phone("ann")
        ann.press(".top button").sees("Your name")
        self.look(ann, "sign-in")
        ann.type("#user", "ann").press(".sign-in button").sees("Signed in on")

    def test_focus(self):
        ann, bob = self.phone("ann"), self.phone("bob")
        focused = "return document.activeElement.textContent"
        ann.call("Bob")
        bob.rings()
        self.assertEqual(bob.js(focused), "Ann is calling")
        self.assertIn("Ann is calling", bob.js("return document.title"))
        bob.do("answer").talks()
        self.assertEqual(bob.js(focused), "Ann")
        bob.sees("In a call")
        self.assertEqual(bob.js("return document.getElementById('say').textContent"), "In a call")
        bob.do("transfer")
        self.assertTrue(bob.js("return document.activeElement.closest('dialog') !== null"))
        bob.escape().sees_not("dialog")
        self.assertEqual(bob.js("return document.activeElement.dataset.do"), "transfer")


class Policy(PhoneTest):
    expects_errors = "Content Security Policy"

    def test_nothing_but_its_own_files_runs(self):
        ann = self.phone("ann")
        policy = ann.driver.execute_async_script(
            "const done = arguments[0]; fetch(location.href).then(({ headers }) => done(headers.get('content-security-policy')))"
        )
        for part in ("default-src 'self'", "object-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
            self.assertIn(part, policy)
        ran = ann.js(
            "document.head.append(Object.assign(document.createElement('script'), { textContent: 'globalThis.ran = true' }));"
            "return globalThis.ran ?? false"
        )
        self.assertIs(ran, False)

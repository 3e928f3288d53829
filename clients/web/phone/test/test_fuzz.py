"""The client under a server that repeats, delays, loses and reorders what it sends."""

import pathlib

from stage import StageTest
from waiting import until

MANGLE = pathlib.Path(__file__).with_name("mangle.js").read_text()


class Machine(StageTest):
    def test_the_machine_in_this_browser(self):
        """The same trials as in node: nonsense in any order."""
        phone = self.phone("ann")
        phone.driver.get(f"{self.root('ann')}/testing/fuzz.html?seeds=100")
        results = until("the trials to end", lambda: phone.js("return globalThis.fuzzed"))
        self.assertEqual([result["error"] for result in results if result["error"]], [])
        self.assertEqual(len(results), 3)


class Mangled(StageTest):
    """Both pages get the deliveries of a real cluster late, twice, in another order, or not before they are repeated."""

    def mangled(self, user, seed):
        phone = self.phone(user)
        remove = phone.at_start(MANGLE.replace("SEED", str(seed)))
        phone.driver.refresh()
        phone.ready()
        # For this page alone: mangling what is mangled loses too much.
        remove()
        phone.js(
            "globalThis.told = [];"
            "callmeshPhone.device.on('incoming', ({ call }) => told.push('incoming ' + call.id));"
            "callmeshPhone.device.on('ended', ({ call }) => told.push('ended ' + call.id))"
        )
        return phone

    def both(self, seed):
        return self.mangled("ann", seed), self.mangled("bob", seed + 1)

    def over(self, calls, *phones):
        """Every call has rung once at most and ended once, at each device."""
        for phone in phones:
            phone.sees_not(".card.ringing")
            until(lambda: f"no call at {phone.name}", lambda: phone.js("return callmeshPhone.device.calls.length === 0"))
            told = phone.js("return told")
            self.assertEqual(len(told), len(set(told)), told)
            self.assertEqual(sum(one.startswith("ended") for one in told), calls, told)
            self.assertGreater(phone.js("return mangled.late + mangled.twice + mangled.lost"), 0)

    def test_calls_come_to_the_same_end(self):
        for seed in (11, 22):
            with self.subTest(seed=seed):
                ann, bob = self.both(seed)
                ann.call("Bob").sees("Ringing on Bob's browser")
                bob.rings().do("answer")
                for phone in (ann, bob):
                    phone.talks().grows("audio", "energy")
                bob.do("hang-up")
                ann.sees("Bob hung up")
                bob.call("Ann")
                ann.rings()
                bob.do("hang-up").sees("You gave up before an answer")
                ann.sees("Bob gave up")
                ann.call("Bob")
                bob.rings().do("decline")
                ann.sees("Bob declined")
                self.over(3, ann, bob)

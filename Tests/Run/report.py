"""What a run prints: a line for each job, and in the end what failed, with the command that repeats it."""

import json
import time


class Report:
    def __init__(self, title):
        self.title = title
        self.began = time.monotonic()

    def _say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", flush=True)

    def begun(self, jobs, tests):
        self._say(f"{self.title}: {tests:,} tests in {jobs} jobs")

    def going_on(self, names, waiting):
        self._say(f"running {', '.join(names)}; {waiting} jobs wait")

    def ended(self, outcome):
        is_skipped = outcome.job.name in outcome.skipped
        verdict = "FAILED" if outcome.failures else "skipped" if is_skipped else "ok"
        parts = [f"{outcome.ran:,} tests"] if outcome.ran or not outcome.job.script else []
        if outcome.skipped:
            parts.append(f"{len(outcome.skipped)} skipped")
        parts.append(f"{outcome.seconds:.0f} s, {outcome.cpu:.0f} s of processors")
        self._say(f"{verdict} {outcome.job.name}: {', '.join(parts)}")

    def again(self, jobs):
        self._say(f"once more, alone: {', '.join(job.name for job in jobs)}")

    def summary(self, outcomes, flaky, failures):
        """The last lines. `flaky` are failures of real processes that did not show again."""
        lines = [f"skipped: {test}: {why}" for test, why in reasons(outcomes)]
        for test, messages, _ in _by_test(flaky):
            lines += ["", f"flaky: {test}", *messages]
        for test, messages, again in _by_test(failures):
            lines += ["", f"FAILED {test}", *messages, f"  again: {again}"]
        ran = sum(outcome.ran for outcome in outcomes)
        seconds = time.monotonic() - self.began
        cpu = sum(outcome.cpu for outcome in outcomes)
        told = f"{ran:,} tests in {seconds:.0f} s ({cpu:.0f} s of processors)"
        # A test that was repeated counts once.
        if tests := {failure.test for failure in failures}:
            lines += ["", f"{self.title} FAILED: {len(tests)} of {told}"]
        else:
            more = f"; flaky: {', '.join(sorted({failure.test for failure in flaky}))}" if flaky else ""
            lines += ["", f"{self.title} OK: {told}{more}"]
        return "\n".join(lines)


def reasons(outcomes):
    """Tests that this machine cannot run, and why. Those that only `make prove` runs are not named."""
    for outcome in outcomes:
        for test, why in sorted(outcome.skipped.items()):
            if "only make prove" not in why:
                yield test, why


def _by_test(failures):
    """Each test once, with the first of its messages, and the command that repeats it."""
    found = {}
    for failure in failures:
        found.setdefault(failure.test, []).append(failure)
    for test, those in found.items():
        messages = [_indented(failure.message) for failure in those[:3]]
        if len(those) > 3:
            messages.append(f"  … and {len(those) - 3} more")
        yield test, messages, those[0].again


def _indented(text):
    # An expectation may compare the whole output of a process, whose end says why.
    if len(text) > 6000:
        text = text[:3000] + "\n…\n" + text[-3000:]
    return "\n".join("  " + line for line in text.splitlines())


def as_json(outcomes, flaky, failures):
    return json.dumps(
        {
            "ok": not failures,
            "jobs": [
                {
                    "name": outcome.job.name,
                    "seconds": round(outcome.seconds, 1),
                    "cpu_seconds": round(outcome.cpu, 1),
                    "tests": outcome.ran,
                    "skipped": outcome.skipped,
                    "failed": sorted({failure.test for failure in outcome.failures}),
                    "slowest": [{"test": test, "seconds": round(took, 2)} for took, test in outcome.slowest[:20]],
                }
                for outcome in outcomes
            ],
            "flaky": [vars(failure) for failure in flaky],
            "failures": [vars(failure) for failure in failures],
        },
        indent=1,
    )

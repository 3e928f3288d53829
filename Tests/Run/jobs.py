"""A job is one process of tests, or one script. This is how one runs, and what is made of its end."""

import os
import pathlib
import re
import shutil
import signal
import time
from dataclasses import dataclass, field

import bundle
import processes


# Beside another program that wants a whole processor, a job of this niceness gets a quarter of it. With a higher one, the
# simulation would never end on a machine that others keep busy.
NICENESS = 5


@dataclass(frozen=True)
class Job:
    """
    pattern: matches the ids of the tests that it runs; empty for a script.
    script: the command of a script.
    real: it talks to processes, which may be held up by anything, so what fails is run once more, alone.
    lane: "computes" keeps the processors busy; "waits" has processes that mostly wait; "simulates" gives way to the
        others, since the time of a simulation is simulated.
    serial: one test at a time.
    apart: jobs with the same word here never run beside each other.
    minutes: the longest that it may take.
    seconds: how long it took on two processors. The long ones begin first.
    skip_status: the exit status of a script that cannot run on this machine.
    """

    name: str
    pattern: str = ""
    script: tuple = ()
    real: bool = False
    lane: str = "computes"
    serial: bool = False
    apart: str = ""
    minutes: int = 10
    seconds: int = 10
    skip_status: int | None = None
    environment: tuple = ()


@dataclass
class Failure:
    """test: its id, or the job's name where no test can be named."""

    test: str
    message: str
    again: str


@dataclass
class Outcome:
    job: Job
    seconds: float
    cpu: float
    ran: int
    skipped: dict
    failures: list = field(default_factory=list)
    log: pathlib.Path | None = None
    slowest: list = field(default_factory=list)


@dataclass(frozen=True)
class Ground:
    """
    bundle: the program with all tests.
    folder: for logs and events, which stay.
    temporary: for what processes write; its path is short, since sockets have names of 107 bytes at most.
    mark: of all processes of this run.
    again: the command that repeats a test, with a place for its name.
    """

    bundle: str
    folder: pathlib.Path
    temporary: pathlib.Path
    mark: str
    again: str = "make test ONLY='{}'"


class Running:
    """A job that runs."""

    def __init__(self, job, ground, expected):
        self.job = job
        self.expected = expected
        self.again = ground.again
        # The point keeps "a" from being the beginning of "ab".
        self.mark = f"{ground.mark}.{job.name}."
        self.events = ground.folder / f"{job.name}.events"
        self.log = ground.folder / f"{job.name}.log"
        # Servers put their stores and folders there, so none is left.
        self.temporary = ground.temporary / job.name
        self.temporary.mkdir()
        self.events.unlink(missing_ok=True)
        words = job.script or bundle.command(ground.bundle, job.pattern, self.events, job.serial)
        self.began = time.monotonic()
        environment = {"TMPDIR": str(self.temporary), **dict(job.environment)}
        with open(self.log, "wb") as log:
            self.process = processes.start(words, self.mark, log, environment, NICENESS if job.lane == "simulates" else 0)
        self.is_late = False

    @property
    def seconds(self):
        return time.monotonic() - self.began

    def poll(self):
        """The outcome, once it has ended."""
        process, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if process == 0:
            if not self.is_late and self.seconds > self.job.minutes * 60:
                self.is_late = True
                os.kill(self.process.pid, signal.SIGKILL)
            return None
        code = os.waitstatus_to_exitcode(status)
        self.process.returncode = code
        return self._outcome(code, usage.ru_utime + usage.ru_stime)

    def _outcome(self, code, cpu):
        seconds = self.seconds
        # A guardian may still remove its server's store.
        left = processes.end(self.mark, grace=0 if self.is_late else processes.GRACE)
        shutil.rmtree(self.temporary, ignore_errors=True)
        found = bundle.verdicts(self.events)
        skipped = {test: verdict.skipped for test, verdict in found.items() if verdict.skipped}
        ran = [test for test in self.expected if test in found and not found[test].skipped]
        outcome = Outcome(self.job, seconds, cpu, len(ran), skipped, log=self.log)
        outcome.slowest = sorted(((found[test].seconds, test) for test in ran), reverse=True)
        if self.job.script:
            self._judge_script(code, outcome)
        else:
            self._judge_tests(found, code, outcome)
        if left and not self.is_late:
            self._fail(outcome, self.job.name, f"left processes behind: {', '.join(left)}")
        return outcome

    def _judge_script(self, code, outcome):
        if self.is_late:
            self._fail(outcome, self.job.name, f"did not end within {self.job.minutes} min\n{self._tail()}")
        elif code == self.job.skip_status:
            outcome.skipped[self.job.name] = self._tail(1)
        elif code != 0:
            self._fail(outcome, self.job.name, f"ended with status {code}\n{self._tail()}")
        else:
            # Parts that the script has left out, each with the reason behind this word.
            reasons = re.findall(r"SKIPPED: ([^'\n]+)", self.log.read_text(errors="replace"))
            for number, reason in enumerate(dict.fromkeys(reasons), 1):
                outcome.skipped[f"{self.job.name}, part {number}"] = reason

    def _judge_tests(self, found, code, outcome):
        for test, verdict in found.items():
            for issue in verdict.issues:
                self._fail(outcome, test or self.job.name, issue)
        missing = [test for test in self.expected if test not in found or not found[test].ended]
        for test in missing:
            if test in found:
                why = "did not end" if self.is_late else f"was running when the process ended ({_status(code)})"
                self._fail(outcome, test, f"{why}\n{self._tail()}")
        never = [test for test in missing if test not in found]
        if never:
            names = ", ".join(never[:3]) + (", …" if len(never) > 3 else "")
            self._fail(outcome, self.job.name, f"{len(never)} of {len(self.expected)} tests did not run: {names}")
        # A suite that matches brings all its tests, whether they match or not.
        strangers = [test for test, verdict in found.items() if test.endswith(")") and test not in self.expected]
        if strangers:
            self._fail(outcome, self.job.name, f"{len(strangers)} tests of other jobs ran, such as {strangers[0]}")
        # 1 says that a test failed.
        if code not in (0, 1) or (code == 1 and not outcome.failures):
            self._fail(outcome, self.job.name, f"the process ended ({_status(code)})\n{self._tail()}")

    def _fail(self, outcome, test, message):
        outcome.failures.append(Failure(test, message, self.again.format(test)))

    def _tail(self, lines=25):
        text = self.log.read_text(errors="replace").splitlines()
        # A crash explains itself before its registers and images.
        crash = next((n for n, line in enumerate(text) if "Fatal error" in line or "Program crashed" in line), None)
        part = text[-lines:] if crash is None else text[max(0, crash - 2) : crash + lines]
        # It lists all threads, and the one that crashed may be a later one.
        thread = next((n for n, line in enumerate(text) if re.match(r"Thread .* crashed:", line)), None)
        if thread is not None:
            part = text[max(0, crash - 2) : crash + 1] + text[thread : thread + lines]
        return "\n".join(line[:400] for line in part)


def _status(code):
    return f"signal {-code}" if code < 0 else f"status {code}"

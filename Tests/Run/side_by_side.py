"""Runs jobs beside each other, as many as the processors allow."""

import os
import select
import signal
import time

import processes
from jobs import Running


class Interrupted(Exception):
    """A signal asks this program to end."""


def run(jobs, ground, expected, widths, report):
    """Runs jobs to their end, and returns their outcomes.

    expected: the ids of the tests of a job, by its name.
    widths: how many jobs of a lane may run, beside those of which lanes, with those of which lanes to come.
    report: is told of each outcome, and of the names of those that run.
    """
    waiting = sorted(jobs, key=lambda job: -job.seconds)
    running, outcomes = [], []
    said = time.monotonic()
    while waiting or running:
        for job in list(waiting):
            beside = [one.job.lane for one in running]
            to_come = {one.lane for one in waiting}
            is_kept_apart = job.apart and any(one.job.apart == job.apart for one in running)
            if not is_kept_apart and beside.count(job.lane) < widths(job.lane, beside, to_come):
                waiting.remove(job)
                running.append(Running(job, ground, expected.get(job.name, [])))
        _wait([one.process.pid for one in running], 1.0)
        for one in list(running):
            outcome = one.poll()
            if outcome is not None:
                running.remove(one)
                outcomes.append(outcome)
                report.ended(outcome)
                said = time.monotonic()
        if time.monotonic() - said > 15:
            said = time.monotonic()
            report.going_on([one.job.name for one in running], len(waiting))
    return outcomes


def _wait(children, seconds):
    """Waits until one of the children has ended, or for so long."""
    files = []
    try:
        for child in children:
            files.append(os.pidfd_open(child))
        select.select(files, [], [], seconds)
    except ProcessLookupError:
        pass
    finally:
        for file in files:
            os.close(file)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with_everything():
    """From now on a signal, or the parent's end, raises ``Interrupted`` in this program."""

    def stop(number, frame):
        raise Interrupted(signal.Signals(number).name)

    for number in _SIGNALS:
        # As under nohup.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    processes.die_with_parent(signal.SIGTERM)


def ignore_signals():
    """Lets a program that is about to end finish that."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)

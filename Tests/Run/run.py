"""Runs the tests that `swift build --build-tests` has built: `make test` and `make prove` (docs/testing.md)."""

import argparse
import fcntl
import os
import pathlib
import re
import sys
import tempfile
import uuid
from dataclasses import replace

import bundle
import parts
import processes
import prove
import side_by_side
from jobs import Ground
from report import Report, as_json

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    options = arguments()
    os.chdir(ROOT)
    folder = ROOT / ".build" / "tests"
    folder.mkdir(exist_ok=True)
    lock = open(folder / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another run is under way in {ROOT}", file=sys.stderr)
        return 2
    mark = uuid.uuid4().hex
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="cm-"))
    ground = Ground(str(ROOT / ".build/release/callmeshPackageTests.xctest"), folder, temporary, mark)
    guardian = processes.Guardian(mark, temporary)
    try:
        side_by_side.end_with_everything()
        return run(options, ground) if options.command == "test" else prove.run(options, ground)
    except side_by_side.Interrupted as signal:
        print(f"interrupted by {signal}", file=sys.stderr)
        return 130
    finally:
        side_by_side.ignore_signals()
        guardian.finish()


def arguments():
    parser = argparse.ArgumentParser(prog="Tests/Run", description=__doc__)
    parser.add_argument("command", choices=["test", "prove"])
    parser.add_argument("--only", metavar="REGEX", help="test: only tests whose id matches, or jobs whose whole name does")
    parser.add_argument("--list", action="store_true", help="test: print which job runs which test, and run nothing")
    parser.add_argument("--json", metavar="FILE", help="also write the result there")
    parser.add_argument("--part", action="append", help="prove: only this part, also if it held before (several times)")
    parser.add_argument("--minutes", type=int, default=30, help="prove: how long the part soak takes (30)")
    options = parser.parse_args()
    if options.command == "prove" and (options.only or options.list):
        parser.error("--only and --list are for test")
    try:
        re.compile(options.only or "")
    except re.error as error:
        parser.error(f"--only {options.only}: {error}")
    return options


def run(options, ground):
    tests = bundle.listed(ground.bundle)
    jobs = parts.of_test(tests)
    expected, strays = assigned(jobs, tests)
    if options.only:
        jobs, expected = only(options.only, jobs, expected)
        if not jobs:
            print(f"no test or script matches {options.only!r}; --list names all", file=sys.stderr)
            return 2
    if options.list:
        for job in jobs:
            for test in expected.get(job.name, [job.name]):
                print(f"{job.name}\t{test}")
        for failure in strays:
            print(f"no single job\t{failure.test}")
        return 0
    (ground.folder / "summary").unlink(missing_ok=True)
    report = Report("make test")
    report.begun(len(jobs), sum(len(tests) for tests in expected.values()))
    outcomes = side_by_side.run(jobs, ground, expected, parts.widths, report)
    flaky = []
    repeated = [job for job in (once_more(outcome) for outcome in outcomes) if job]
    if repeated:
        flaky = repeat(repeated, outcomes, ground, report)
    failures = strays + [failure for outcome in outcomes for failure in outcome.failures]
    summary = report.summary(outcomes, flaky, failures)
    print(summary, flush=True)
    # For whoever calls this among other things.
    (ground.folder / "summary").write_text(summary if failures or flaky else "")
    if options.json:
        pathlib.Path(options.json).write_text(as_json(outcomes, flaky, failures))
    return 1 if failures else 0


def assigned(jobs, tests):
    """The tests of each job, by its name; and a failure for each test that not exactly one job runs."""
    expected = {job.name: [] for job in jobs if job.pattern}
    strays = []
    for test in tests:
        names = [job.name for job in jobs if job.pattern and re.search(job.pattern, test)]
        for name in names[:1]:
            expected[name].append(test)
        if len(names) != 1:
            strays.append(parts.stray(test, names))
    return expected, strays


def only(pattern, jobs, expected):
    """The same jobs with the tests that match."""
    chosen, left = [], {}
    for job in jobs:
        tests = [test for test in expected.get(job.name, []) if re.search(pattern, test) or pattern == test]
        if tests:
            left[job.name] = tests
            # The ids of all tests of a large job are too long for a command line.
            is_whole = len(tests) == len(expected[job.name])
            chosen.append(job if is_whole else replace(job, pattern="|".join(map(bundle.exactly, tests))))
        elif re.fullmatch(pattern, job.name):
            left[job.name] = expected.get(job.name, [])
            chosen.append(job)
    return chosen, left


def once_more(outcome):
    """The job that repeats what failed; None where nothing may be repeated."""
    if not outcome.failures or not outcome.job.real:
        return None
    job = replace(outcome.job, name=outcome.job.name + ".again", seconds=0)
    tests = {failure.test for failure in outcome.failures}
    if not job.pattern or any("/" not in test for test in tests):
        return job
    return replace(job, pattern="|".join(map(bundle.exactly, sorted(tests))))


def repeat(jobs, outcomes, ground, report):
    """Runs jobs one after the other. Returns the failures that did not show again, and takes them from the outcomes."""
    report.again(jobs)
    tests = bundle.listed(ground.bundle)
    expected = {
        job.name: [test for test in tests if job.pattern and re.search(job.pattern, test)] for job in jobs
    }
    again = side_by_side.run(jobs, ground, expected, parts.alone, report)
    flaky = []
    for second in again:
        first = next(outcome for outcome in outcomes if outcome.job.name + ".again" == second.job.name)
        failed = {failure.test for failure in first.failures}
        # One that did not run the second time has not passed.
        if second.failures or failed & set(second.skipped) or second.job.name in second.skipped:
            continue
        flaky += first.failures
        first.failures = []
    return flaky

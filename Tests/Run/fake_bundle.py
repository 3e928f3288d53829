#!/usr/bin/env python3
"""Stands in for the bundle in test_run.py: does with each test what the test's name says."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

TESTS = os.environ["FAKE_TESTS"].split()


def main():
    if "--list-tests" in sys.argv:
        print("\n".join(TESTS))
        return 0
    pattern = sys.argv[sys.argv.index("--filter") + 1]
    with open(sys.argv[sys.argv.index("--event-stream-output-path") + 1], "w") as events:
        ends = [play(test, events) for test in TESTS if re.search(pattern, test)]
    return 1 if "fail" in ends else 0


def play(test, events):
    place = {"fileID": "Fake/Fake.swift", "line": 7}
    name = f"{test}/Fake.swift:1:2"

    def say(kind, **more):
        event = {"kind": kind, "instant": {"absolute": time.monotonic()}, "messages": [], "testID": name, **more}
        print(json.dumps({"kind": "event", "payload": event}), file=events, flush=True)

    def fail(known=False):
        say("issueRecorded", issue={"isKnown": known, "sourceLocation": place}, messages=[{"text": "1 == 2"}])

    print(json.dumps({"kind": "test", "payload": {"id": name, "kind": "function"}}), file=events)
    what = re.search(r"/(\w+)\(\)", test)[1]
    if what == "notThere":
        return ""
    if what == "skipped":
        say("testSkipped", _comments=["needs a moon"])
        return ""
    say("testStarted")
    if what == "crashes":
        print("Fatal error: so it is", flush=True)
        os.kill(os.getpid(), 9)
    if what == "hangs":
        time.sleep(600)
    if what == "leavesOneBehind":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    once = pathlib.Path(os.environ["FAKE_FOLDER"]) / "failed-once"
    is_bad = what == "fails" or (what == "failsOnce" and not once.exists())
    if is_bad:
        once.touch()
        fail()
    if what == "known":
        fail(known=True)
    say("testEnded")
    return "fail" if is_bad else ""


if __name__ == "__main__":
    sys.exit(main())

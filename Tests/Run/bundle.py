"""Tests of the bundle that SwiftPM built: which there are, and what became of those that ran."""

import json
import re
import subprocess
from dataclasses import dataclass, field

LIBRARY = ["--testing-library", "swift-testing"]


def listed(bundle):
    """The ids of all tests, as `Target.Suite/function()`."""
    text = subprocess.run([bundle, *LIBRARY, "--list-tests"], check=True, capture_output=True, text=True, timeout=120).stdout
    return [line for line in text.splitlines() if line]


def command(bundle, pattern, events, serial):
    """The command that runs the tests whose ids match, and writes what happens into the file `events`."""
    words = [bundle, *LIBRARY, "--event-stream-output-path", str(events), "--event-stream-version", "0"]
    if serial:
        words.append("--no-parallel")
    return [*words, "--filter", pattern]


def exactly(test):
    """Matches one id, as the command line of the bundle and `re` understand it."""
    return "^" + re.escape(test) + "(/|$)"


@dataclass
class Verdict:
    """What became of one test."""

    seconds: float = 0.0
    ended: bool = False
    skipped: str = ""
    issues: list = field(default_factory=list)


def verdicts(events):
    """Reads what a process has written by now. Returns a verdict for each test that started or was skipped, and for
    each suite with an issue of its own. Issues that belong to no test are under the empty name."""
    kinds, found, began = {}, {}, {}
    try:
        lines = open(events, encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    with lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # The last line of a process that was killed.
            payload = record["payload"]
            if record["kind"] == "test":
                kinds[payload["id"]] = payload["kind"]
                continue
            test = payload.setdefault("testID", "")
            if (not test or kinds.get(test) == "suite") and payload["kind"] != "issueRecorded":
                continue
            _add(payload, found.setdefault(without_place(test), Verdict()), began)
    return found


def _add(event, verdict, began):
    kind, at, test = event["kind"], event["instant"]["absolute"], event["testID"]
    if kind == "testStarted":
        began[test] = at
    elif kind == "testEnded":
        verdict.ended = True
        verdict.seconds = at - began.get(test, at)
    elif kind == "testSkipped":
        verdict.ended = True
        verdict.skipped = " ".join(event.get("_comments", [])) or "skipped"
    elif kind == "issueRecorded" and not event["issue"]["isKnown"]:
        verdict.issues.append(_text(event))


def _text(event):
    place = event["issue"].get("sourceLocation")
    where = f"{place['fileID']}:{place['line']}: " if place else ""
    case = event.get("_testCase")
    which = f"({case['displayName']}) " if case else ""
    return where + which + "\n".join(message["text"] for message in event["messages"])


def without_place(test):
    """`Target.Suite/function()/File.swift:1:2` without the last part."""
    return re.sub(r"/[^/]*\.swift:\d+:\d+$", "", test)

"""`make prove`: part after part, each remembered, and a table at the end."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import replace

import bundle
import parts
import side_by_side
from report import Report, reasons

MEMORY = pathlib.Path(".build/tests/prove.json")


def run(options, ground):
    tests = bundle.listed(ground.bundle)
    everything = parts.of_prove(tests, options.minutes)
    wanted = options.part or [name for name in everything if name != "soak"]
    if strangers := [name for name in wanted if name not in everything]:
        print(f"no part {', '.join(strangers)}; there are {', '.join(everything)}", file=sys.stderr)
        return 2
    memory = _remembered()
    os.environ["CALLMESH_NEW_SEEDS"] = str(new_seeds(memory["tree"]))
    for name in wanted:
        # A part that is asked for by its name runs in any case.
        if memory["parts"].get(name, {}).get("held") == "yes" and not options.part:
            continue
        memory["parts"][name] = _part(name, everything[name](), ground, tests)
        MEMORY.write_text(json.dumps(memory, indent=1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(memory, indent=1))
    held = _table(memory["parts"], wanted)
    if held and not options.part:
        # The next run begins anew.
        MEMORY.unlink()
    return 0 if held else 1


def _part(name, jobs, ground, tests):
    report = Report(f"prove {name}")
    expected = {
        job.name: [test for test in tests if job.pattern and re.search(job.pattern, test)] for job in jobs
    }
    report.begun(len(jobs), sum(map(len, expected.values())))
    began = time.monotonic()
    ground = replace(ground, again=f"make prove PARTS={name} # {{}}")
    outcomes = side_by_side.run(jobs, ground, expected, parts.widths, report)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    print(report.summary(outcomes, [], failures), flush=True)
    skipped = dict(reasons(outcomes))
    return {
        "held": "NO" if failures else "not all" if skipped or not jobs else "yes",
        "seconds": round(time.monotonic() - began),
        "jobs": len(jobs),
        "tests": sum(outcome.ran for outcome in outcomes),
        "skipped": skipped,
        "failures": [vars(failure) for failure in failures],
    }


def _remembered():
    """What an interrupted run found of the same tree: parts that held do not run again."""
    tree = _tree()
    try:
        memory = json.loads(MEMORY.read_text())
    except (FileNotFoundError, ValueError):
        memory = {}
    return memory if tree and memory.get("tree") == tree else {"tree": tree, "parts": {}}


def new_seeds(tree):
    """The first of the seeds that are new with this version: they follow from its files, so that a run can be repeated."""
    return (zlib.crc32(tree.encode()) if tree else int(time.time())) * 1000


def _tree():
    """A name for all files as they are, those that git does not know yet included; empty without git."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
        try:
            subprocess.run(["git", "add", "--all"], check=True, capture_output=True, env=environment)
            written = subprocess.run(["git", "write-tree"], check=True, capture_output=True, text=True, env=environment)
        except (subprocess.CalledProcessError, FileNotFoundError):
            return ""
        return written.stdout.strip()


def _table(found, wanted):
    """Whether all parts held that could run here."""
    print(f"\n{'part':<12} {'held':<8} {'seconds':>8} {'jobs':>5} {'tests':>6} {'skipped':>8}  failed")
    for name in wanted:
        part = found[name]
        failed = ", ".join(dict.fromkeys(failure["test"] for failure in part["failures"]))
        print(
            f"{name:<12} {part['held']:<8} {part['seconds']:>8} {part['jobs']:>5} {part['tests']:>6}"
            f" {len(part['skipped']):>8}  {failed}"
        )
    return not any(found[name]["held"] == "NO" or not found[name]["jobs"] for name in wanted)

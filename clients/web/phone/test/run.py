#!/usr/bin/env python3
"""Tests the phone with Chromium and Firefox at a server that runs (`make phone-test` starts one).

    PHONE_URL=http://localhost:8090 run.py [test_calls.Talking …]

All tests run in two lanes at a time, since browsers and clusters mostly wait. What the second lane says follows the first.
With PHONE_SHOTS=folder screenshots are saved.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import phones  # noqa: E402

# These tests use the cluster of `make phone`. The others kill processes of one of their own.
FIRST_LANE = ["test_access", "test_calls", "test_devices", "test_firefox", "test_groups", "test_looks", "test_rules"]


def run(names):
    try:
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        return unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
    finally:
        phones.close()


def run_all():
    second = sorted({path.stem for path in HERE.glob("test_*.py")} - set(FIRST_LANE))
    with tempfile.TemporaryFile() as log:
        lane = subprocess.Popen([sys.executable, __file__, *second], stdout=log, stderr=log)
        try:
            is_good = run(FIRST_LANE)
            return lane.wait() == 0 and is_good
        finally:
            lane.wait()
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(0 if (run(sys.argv[1:]) if sys.argv[1:] else run_all()) else 1)

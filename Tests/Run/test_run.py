"""Tests of the runner itself, with a bundle that does what the names of its tests say: python3 Tests/Run/test_run.py"""

import contextlib
import io
import os
import pathlib
import shutil
import sys
import tempfile
import types
import unittest
import uuid
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import jobs  # noqa: E402
import parts  # noqa: E402
import processes  # noqa: E402
import prove  # noqa: E402
import run  # noqa: E402
from jobs import Ground, Job  # noqa: E402


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cm-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        # The runner that runs this finds these processes, too.
        self.mark = os.environ.get(processes.MARK, "") + uuid.uuid4().hex
        self.addCleanup(processes.end, self.mark)

    def run_tests(self, *tests, real=False, only=None, those=None):
        """The exit status, and what was printed."""
        those = those or [Job("all", "^T\\.", real=real)]
        (self.folder / "tmp").mkdir(exist_ok=True)
        ground = Ground(str(HERE / "fake_bundle.py"), self.folder, self.folder / "tmp", self.mark)
        options = types.SimpleNamespace(only=only, list=False, json=None)
        environment = {"FAKE_TESTS": " ".join(tests), "FAKE_FOLDER": str(self.folder)}
        printed = io.StringIO()
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(parts, "of_test", lambda tests: those),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            status = run.run(options, ground)
        return status, printed.getvalue()

    def test_all_pass(self):
        status, text = self.run_tests("T.S/passes()", "T.S/known()")
        self.assertEqual(status, 0, text)
        self.assertIn("OK: 2 tests", text)
        self.assertEqual((self.folder / "summary").read_text(), "")

    def test_a_failure_is_the_last_thing_that_is_said(self):
        status, text = self.run_tests("T.S/passes()", "T.S/fails()")
        self.assertEqual(status, 1)
        end = text[text.index("\nFAILED T.S/fails()") :]
        self.assertIn("Fake/Fake.swift:7: 1 == 2", end)
        self.assertIn("again: make test ONLY='T.S/fails()'", end)
        self.assertIn("FAILED: 1 of 2 tests", end.splitlines()[-1])
        self.assertIn("T.S/fails()", (self.folder / "summary").read_text())

    def test_a_crash_names_the_test_that_ran_and_those_that_did_not(self):
        status, text = self.run_tests("T.S/passes()", "T.S/crashes()", "T.S/never()")
        self.assertEqual(status, 1)
        self.assertIn("FAILED T.S/crashes()", text)
        self.assertIn("Fatal error: so it is", text)
        self.assertIn("1 of 3 tests did not run: T.S/never()", text)

    def test_a_test_that_does_not_run_is_a_failure(self):
        status, text = self.run_tests("T.S/passes()", "T.S/notThere()")
        self.assertEqual(status, 1)
        self.assertIn("1 of 2 tests did not run: T.S/notThere()", text)

    def test_one_that_no_job_runs_too(self):
        status, text = self.run_tests("T.S/passes()", "U.S/passes()")
        self.assertEqual(status, 1)
        self.assertIn("FAILED U.S/passes()", text)

    def test_and_one_that_two_jobs_run(self):
        status, text = self.run_tests("T.S/passes()", those=[Job("a", "^T"), Job("b", "S")])
        self.assertEqual(status, 1)
        self.assertIn("2 jobs run it: a, b", text)

    def test_one_that_hangs_is_ended_and_named(self):
        def seconds(running):
            has_begun = running.events.exists() and "testStarted" in running.events.read_text()
            return 3600 if has_begun else 0

        with mock.patch.object(jobs.Running, "seconds", property(seconds)):
            status, text = self.run_tests("T.S/hangs()")
        self.assertEqual(status, 1)
        self.assertIn("FAILED T.S/hangs()\n  did not end", text)

    def test_what_is_left_behind_is_ended_and_named(self):
        with mock.patch.object(processes, "GRACE", 0.2):
            status, text = self.run_tests("T.S/leavesOneBehind()")
        self.assertEqual(status, 1)
        self.assertIn("left processes behind: sleep", text)
        self.assertEqual(processes.marked(self.mark), {})

    def test_a_skipped_test_is_named_with_its_reason(self):
        status, text = self.run_tests("T.S/skipped()", "T.S/passes()")
        self.assertEqual(status, 0)
        self.assertIn("skipped: T.S/skipped(): needs a moon", text)

    def test_processes_get_a_second_trial(self):
        status, text = self.run_tests("T.S/failsOnce()", "T.S/passes()", real=True)
        self.assertEqual(status, 0, text)
        self.assertIn("\nflaky: T.S/failsOnce()\n  Fake/Fake.swift:7: 1 == 2", text)
        self.assertIn("flaky: T.S/failsOnce()", text.splitlines()[-1])
        self.assertIn("flaky", (self.folder / "summary").read_text())

    def test_in_which_they_may_fail_again(self):
        status, text = self.run_tests("T.S/fails()", real=True)
        self.assertEqual(status, 1)
        self.assertIn("FAILED: 1 of", text)

    def test_others_get_none(self):
        status, text = self.run_tests("T.S/failsOnce()")
        self.assertEqual(status, 1)
        self.assertNotIn("once more", text)

    def test_only(self):
        status, text = self.run_tests("T.S/passes()", "T.S/fails()", only="T.S/passes()")
        self.assertEqual(status, 0, text)
        self.assertIn("OK: 1 tests", text)
        status, text = self.run_tests("T.S/passes()", only="nothing")
        self.assertEqual(status, 2)

    def test_scripts(self):
        those = [Job("good", script=("true",)), Job("bad", script=("sh", "-c", "echo why not; exit 3"))]
        status, text = self.run_tests(those=those)
        self.assertEqual(status, 1)
        self.assertIn("FAILED bad\n  ended with status 3\n  why not", text)
        status, _ = self.run_tests(those=[Job("none", script=("sh", "-c", "exit 77"), skip_status=77)])
        self.assertEqual(status, 0)

    def test_a_script_names_the_parts_that_it_leaves_out(self):
        script = ("sh", "-c", "echo 'test_a ... skipped SKIPPED: there is no moon'; echo SKIPPED: there is no moon; echo ok")
        status, text = self.run_tests(those=[Job("some", script=script)])
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("skipped: some, part 1: there is no moon"), 1, text)
        self.assertIn("ok some: 1 skipped", text)

    def test_some_jobs_are_kept_apart(self):
        script = ("sh", "-c", f"mkdir {self.folder}/here && sleep 0.2 && rmdir {self.folder}/here")
        those = [Job(name, script=script, lane="waits", apart="a room") for name in ("one", "two")]
        status, text = self.run_tests(those=those)
        self.assertEqual(status, 0, text)

    def prove(self, *wanted, **parts_of):
        """The exit status, the table's rows by part, and the names of the parts that ran."""
        ran = []

        def part(name, jobs):
            return lambda: ran.append(name) or jobs

        everything = {name.replace("_", "-"): part(name.replace("_", "-"), jobs) for name, jobs in parts_of.items()}
        ground = Ground(str(HERE / "fake_bundle.py"), self.folder, self.folder, self.mark)
        options = types.SimpleNamespace(part=list(wanted), json=None, minutes=1)
        printed = io.StringIO()
        with (
            mock.patch.dict(os.environ, {"FAKE_TESTS": "", "FAKE_FOLDER": ""}),
            mock.patch.object(parts, "of_prove", lambda tests, minutes: everything),
            mock.patch.object(prove, "MEMORY", self.folder / "prove.json"),
            mock.patch.object(prove, "_tree", lambda: "tree"),
            contextlib.redirect_stdout(printed),
        ):
            status = prove.run(options, ground)
        for job in self.folder.iterdir():
            if job.is_dir():
                job.rmdir()
        table = printed.getvalue().split("\npart ")[1].splitlines()[1:]
        return status, {row.split()[0]: row for row in table}, ran

    def test_prove_says_of_each_part_whether_it_held(self):
        good, bad = [Job("good", script=("true",))], [Job("bad", script=("false",))]
        none = [Job("none", script=("sh", "-c", "exit 77"), skip_status=77)]
        status, rows, ran = self.prove(good=good, bad=bad, none=none)
        self.assertEqual((status, ran), (1, ["good", "bad", "none"]))
        self.assertIn("yes", rows["good"])
        self.assertRegex(rows["bad"], "NO .* bad$")
        self.assertIn("not all", rows["none"])
        # It goes on where something failed, and begins anew once all held.
        status, rows, ran = self.prove(good=good, bad=good, none=good)
        self.assertEqual((status, ran), (0, ["bad", "none"]))
        status, rows, ran = self.prove(good=good, bad=good, none=good)
        self.assertEqual((status, ran), (0, ["good", "bad", "none"]))

    def test_a_part_that_is_asked_for_runs_in_any_case(self):
        good, bad = [Job("good", script=("true",))], [Job("bad", script=("false",))]
        self.prove(good=good, bad=bad)
        status, rows, ran = self.prove("good", good=good, bad=bad)
        self.assertEqual((status, ran, list(rows)), (0, ["good"], ["good"]))

    def test_a_part_without_jobs_has_not_held(self):
        status, rows, ran = self.prove(nothing=[])
        self.assertEqual(status, 1)
        self.assertIn("not all", rows["nothing"])

    def test_the_guardian_ends_what_a_killed_run_leaves(self):
        kept = self.folder / "kept"
        kept.mkdir()
        guardian = processes.Guardian(self.mark, kept)
        with open(os.devnull, "w") as log:
            process = processes.start(["sleep", "600"], self.mark, log, {})
        guardian.finish()  # As when this process had ended.
        self.assertNotEqual(process.wait(), 0)
        self.assertFalse(kept.exists())


if __name__ == "__main__":
    unittest.main()

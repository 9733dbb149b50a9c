"""How the command is found and called, and what its failures become."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import weirlab
from weirlab import _command
from weirlab._plan import to_toml

from .shared import FOLDER, command, needs, result


class Finding(unittest.TestCase):
    def test_the_command_of_the_wheel_comes_first_then_weir_then_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            places = [Path(folder, name, "weir") for name in ("package/_bin", "named", "path")]
            for place in places:
                place.parent.mkdir(parents=True)
                place.write_text("#!/bin/sh\n")
                place.chmod(0o755)
            module = mock.patch.object(_command, "__file__", f"{folder}/package/_command.py")
            environment = mock.patch.dict(os.environ, {"WEIR": str(places[1]), "PATH": f"{folder}/path"})
            with module, environment:
                for place in places:
                    self.assertEqual(_command.find(), place)
                    place.unlink()
                    if place == places[1]:
                        with self.assertRaisesRegex(weirlab.CommandMissing, "WEIR is .*no program"):
                            _command.find()
                        del os.environ["WEIR"]
                with self.assertRaisesRegex(weirlab.CommandMissing, "install a wheel|set WEIR"):
                    _command.find()

    def test_another_program_of_the_name_is_refused(self):
        with command('echo "zfs 1.2"') as path, self.assertRaisesRegex(weirlab.CommandMissing, f"{path} is not the command"):
            weirlab.version()

    def test_a_program_that_cannot_start_is_told(self):
        with command("") as path:
            path.write_text("no program")
            with self.assertRaisesRegex(weirlab.CommandMissing, "cannot start"):
                weirlab.version()

    def test_an_older_command_is_refused_with_the_version_that_is_needed(self):
        with command('echo "weir 0.0.9"'), self.assertRaisesRegex(weirlab.CommandTooOld, "Weir 0.0.9.*needs 0.1"):
            weirlab.read("latest")

    def test_a_command_without_tables_is_too_old(self):
        script = """[ "$1" = --version ] && { echo "weir 0.1.0"; exit 0; }
        printf "error: unexpected argument '--tables' found\\n\\nUsage: weir report\\n" >&2; exit 2\n"""
        with command(script), self.assertRaisesRegex(weirlab.CommandTooOld, "does not know '--tables'"):
            weirlab.read("latest")

    def test_module_and_command_are_of_one_version(self):
        self.assertEqual(weirlab.version(), weirlab.__version__)

    def test_the_module_runs_as_the_command_does(self):
        told = subprocess.run([sys.executable, "-m", "weirlab", "list", "nothing"], capture_output=True, text=True)
        own = subprocess.run([str(weirlab.find()), "list", "nothing"], capture_output=True, text=True)
        self.assertEqual((told.returncode, told.stdout, told.stderr), (own.returncode, own.stdout, own.stderr))
        self.assertEqual(told.returncode, 2)


class Options(unittest.TestCase):
    def test_keywords_become_the_options_of_the_command(self):
        given = {"fs": ["pmfs", "nova"], "threads": [1, 2], "medium": ["a,x=1", "b"], "quick": True, "check": False, "seed": 3}
        words = _command.options(given, lists=("fs", "threads"))
        self.assertEqual(words, ["--fs=pmfs,nova", "--threads=1,2", "--medium=a,x=1", "--medium=b", "--quick", "--seed=3"])
        given = {"variables": {"nfiles": 5}, "option": {"hinfs.buffer": "1MiB"}, "save_image": Path("d"), "robust": False}
        self.assertEqual(_command.options(given), ["-Dnfiles=5", "-Ohinfs.buffer=1MiB", "--save-image=d", "--robust=no"])
        self.assertEqual(_command.options({"switch": {"a": False}, "only": {"fs": "x"}}), ["--switch=a=false", "--only=fs=x"])

    def test_an_option_that_the_command_does_not_know_is_refused_by_its_name(self):
        with self.assertRaisesRegex(weirlab.Refused, "'--bogus'"):
            weirlab.bench("varmail", fs="pmfs", bogus=1, progress=False)

    def test_a_name_is_never_read_as_an_option(self):
        with self.assertRaisesRegex(weirlab.Refused, "no result --help"):
            weirlab.read("--help")
        with self.assertRaisesRegex(weirlab.Refused, "--help"):
            weirlab.run("--help", progress=False)


class Plans(unittest.TestCase):
    PLAN = {
        "plan": {"name": "tried", "why": "a \"quote\"\nand a line", "stop": "1ms"},
        "axis": [{"fs": ["pmfs", "nova"]}, {"threads": [1, 2]}],
        "workload": [{"name": "filebench/varmail", "vars": {"nfiles": 200}}],
    }

    def test_a_plan_of_dictionaries_runs(self):
        got = weirlab.run(self.PLAN, progress=False)
        self.assertEqual(got.document["why"], self.PLAN["plan"]["why"])
        self.assertEqual(got.tables["samples"]["axis.threads"], [1, 2, 1, 2])

    def test_a_refused_plan_is_told_in_the_words_of_the_command_with_the_line(self):
        wrong = {**self.PLAN, "plan": {**self.PLAN["plan"], "stopp": "1ms"}}
        with self.assertRaisesRegex(weirlab.Refused, r'^plan:5:1: unknown key "stopp" in \[plan\]') as refused:
            weirlab.run(wrong, progress=False)
        self.assertEqual(refused.exception.exit_code, 2)
        self.assertEqual(to_toml(wrong).splitlines()[4], 'stopp = "1ms"')

    def test_what_toml_cannot_hold_is_told_by_its_key(self):
        with self.assertRaisesRegex(weirlab.Error, "stop: a plan holds"):
            to_toml({"plan": {"stop": object()}})

    def test_a_file_that_is_missing_is_told(self):
        with self.assertRaisesRegex(weirlab.Refused, "no plan file"):
            weirlab.run(FOLDER / "missing.toml", progress=False)

    def test_an_expectation_that_does_not_hold_raises_with_the_result(self):
        with self.assertRaisesRegex(weirlab.ExpectationFailed, "expected .*does not hold") as failed:
            weirlab.run({**self.PLAN, "expect": {"huge": "pmfs > 1000 * nova"}}, progress=False)
        self.assertEqual(len(failed.exception.result.tables["samples"]), 4)

    def test_a_run_that_fails_is_a_warning_and_a_row_with_its_reason(self):
        broken = {"name": "filebench/fileserver", "vars": {"nfiles": 200}}
        # Each at its own number of threads: fifty of fileserver create more files than there is room for.
        plan = {**self.PLAN, "workload": [broken, *self.PLAN["workload"]], "axis": self.PLAN["axis"][:1]}
        with self.assertWarnsRegex(weirlab.RunWarning, "2 of 4 runs failed"):
            got = weirlab.run(plan, progress=False)
        samples = got.tables["samples"]
        reasons = [row["failed"] for row in samples if row["axis.workload"] == broken["name"]]
        self.assertEqual(len(reasons), 2)
        self.assertTrue(all("absent files" in reason for reason in reasons), reasons)
        self.assertTrue(all((row["failed"] is None) == (row["ops"] is not None) for row in samples))
        self.assertIn("2 of 4 samples failed", got._repr_html_())

    def test_messages_have_no_colour_where_a_notebook_asks_for_it(self):
        with mock.patch.dict(os.environ, {"CLICOLOR_FORCE": "1", "FORCE_COLOR": "1"}):
            with self.assertRaises(weirlab.Refused) as refused:
                weirlab.read(FOLDER / "missing.json")
        self.assertNotIn("\x1b", str(refused.exception))
        self.assertTrue(str(refused.exception).startswith("there is no result"))

    def test_progress_is_told_and_can_be_left_out(self):
        for progress in (True, False):
            script = f"import weirlab; weirlab.run({self.PLAN!r}, progress={progress})"
            told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertEqual("4/4" in told.stderr, progress, told.stderr)


class Interrupts(unittest.TestCase):
    # More runs than any host ends before the signal comes. A shell starts what it puts into the background with SIGINT ignored.
    SCRIPT = """
import signal, weirlab
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ in range(2):
    try:
        weirlab.bench("varmail", fs=["pmfs"], threads=[1], repeats=1000, runtime="30ms", variables={"nfiles": 100}, jobs=1)
        print("was not interrupted")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""

    def test_ctrl_c_ends_the_command_and_the_same_call_goes_on_with_its_cells(self):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-u", "-c", self.SCRIPT], text=True, **pipes) as child:
            seen, runs = [], 0
            for line in child.stderr:
                seen.append(line)
                runs = runs + 1 if " varmail pmfs " in line else 0
                if runs == 3:
                    child.send_signal(signal.SIGINT)
            out = child.stdout.read()
        seen = "".join(seen)
        self.assertEqual(child.returncode, 0, seen)
        self.assertEqual(out.splitlines(), ["interrupted", "interrupted"], seen)
        self.assertRegex(seen, r"reusing \d+ cells")


class Campaigns(unittest.TestCase):
    STATUS = {"shards": 10, "done": 6, "failed": 1, "missing": 2, "running": 1, "schema": "x"}

    def script(self, document, code=0):
        return f"""[ "$1" = --version ] && {{ echo "weir 0.1.0"; exit 0; }}
        cat <<'END'
{json.dumps(document)}
END
        exit {code}
"""

    def test_the_state_of_a_campaign_is_that_which_the_command_tells(self):
        with command(self.script(self.STATUS)):
            state = weirlab.campaign("/srv/<b>")
        self.assertEqual((state.shards, state.done, state.failed, state.missing, state.running), (10, 6, 1, 2, 1))
        self.assertFalse(state.is_done)
        self.assertIn("/srv/&lt;b&gt;", state._repr_html_())
        self.assertIn("6 done, 1 failed", repr(state))

    def test_a_document_without_a_count_is_refused(self):
        wrong = {name: value for name, value in self.STATUS.items() if name != "missing"}
        with command(self.script(wrong)), self.assertRaisesRegex(weirlab.Error, "no number of missing"):
            weirlab.campaign("/srv/x")

    def test_a_command_without_campaigns_is_too_old(self):
        message = "error: unrecognized subcommand 'campaign'\n\nUsage: weir [OPTIONS] <COMMAND>"
        error = {"schema": "weir.error/1", "error": {"message": message, "exit_code": 2}}
        with command(self.script(error, 2)), self.assertRaisesRegex(weirlab.CommandTooOld, "'campaign'.*campaigns"):
            weirlab.campaign("/srv/x")

    def test_a_folder_that_is_no_campaign_is_refused_by_the_built_command(self):
        with self.assertRaises((weirlab.Refused, weirlab.CommandTooOld, weirlab.Error)):
            weirlab.campaign(FOLDER)


class Comparing(unittest.TestCase):
    def test_a_ratio_is_that_of_the_command_with_its_interval(self):
        pairs = result().ratio("fs").cells
        self.assertEqual([pair["axis.threads"] for pair in pairs], ["1", "2", "10"])
        verdicts = {row["axis.threads"]: row for row in result().tables["verdicts"]}
        for pair in pairs:
            row = verdicts[float(pair["axis.threads"])]
            self.assertEqual((pair["baseline"], pair["new"]), ("pmfs", "nova"))
            mine, theirs = (pair["ratio"], pair["low"], pair["high"]), (row["ratio"], row["ratio_low"], row["ratio_high"])
            if row["best"] == "nova":
                self.assertEqual(mine, theirs)

    @needs("pandas")
    def test_the_types_of_a_comparison_are_those_of_the_tables_of_its_result(self):
        wide = weirlab.bench(
            "fxmark/DWAL", fs=["pmfs", "nova"], threads=[2, 10], runtime="1ms", repeats=2, progress=False
        )
        for of in (result(), wide):
            frame, samples = of.ratio("fs").frame, of.samples
            for name in (one for one in frame.columns if one.startswith("axis.")):
                self.assertEqual(frame[name].dtype, samples[name].dtype, name)
            self.assertEqual(str(frame["axis.threads"].dtype), "Int64")
            self.assertEqual(len(frame[frame["axis.threads"] == 10]), 1)
            self.assertEqual(frame["ratio"].dtype.kind, "f")
            joined = samples[samples["axis.fs"] == "nova"].merge(frame, on="axis.threads")
            self.assertEqual(len(joined), len(samples) // 2)
        # A size and a name: bytes and text.
        cell = {"axes": {"iosize": "4KiB", "mode": "x"}, "quantities": {"iosize": 4096.0}, "ratio": 1.5, "verdict": "same"}
        frame = weirlab._result.Comparison({"cells": [cell, {**cell, "axes": {**cell["axes"], "mode": "9"}}]}).frame
        self.assertEqual((list(frame["axis.iosize"]), str(frame["axis.mode"].dtype)), ([4096, 4096], "string"))

    def test_a_result_compared_with_itself_does_not_differ(self):
        for pair in weirlab.compare(result(), result()).cells:
            self.assertEqual(pair["ratio"], 1.0)

    def test_no_cell_in_common_is_told(self):
        other = weirlab.bench("varmail", fs="pmfs", runtime="1ms", variables={"nfiles": 200}, threads=3, progress=False)
        with self.assertRaisesRegex(weirlab.Error, "no cell"):
            weirlab.compare(result(), other)

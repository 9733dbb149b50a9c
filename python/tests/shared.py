"""What the tests share: one small result, programs that stand in for other commands."""

import atexit
import os
import shutil
import stat
import tempfile
import unittest
from contextlib import contextmanager
from pathlib import Path

import weirlab

FOLDER = Path(tempfile.mkdtemp(prefix="weirlab-tests-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
# Runs of the tests are not the user's.
os.environ["XDG_DATA_HOME"] = str(FOLDER / "data")

_made = {}


def result():
    """Two designs, two thread counts, six repeats: milliseconds of virtual time."""
    if "result" not in _made:
        _made["result"] = weirlab.bench(
            "filebench/varmail",
            fs=["pmfs", "nova"],
            threads=[1, 2, 10],
            repeats=6,
            runtime="2ms",
            variables={"nfiles": 200},
            progress=False,
        )
    return _made["result"]


def result_file():
    """The file of that result."""
    path = FOLDER / "result.json"
    if not path.exists():
        result().save(path)
    return path


@contextmanager
def command(text):
    """A program in the place of the command, for what the built one does not do."""
    path = Path(tempfile.mkdtemp(dir=FOLDER)) / "weir"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    inside = weirlab._command.find
    weirlab._command.find = lambda: path
    try:
        yield path
    finally:
        weirlab._command.find = inside


def needs(module):
    """Skips a test where an optional package is missing."""
    try:
        __import__(module)
    except ImportError:
        return unittest.skip(f"{module} is not installed")
    return lambda test: test

"""The wheel that `build_wheel.py` makes: its tag, its record, its bytes."""

import base64
import csv
import hashlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import weirlab

SCRIPT = Path(__file__).resolve().parent.parent / "build_wheel.py"
MODERN = sys.version_info >= (3, 11)


def build(program, out, **more):
    """Runs the script; its exit code and words."""
    return subprocess.run([sys.executable, str(SCRIPT), str(program), str(out)], capture_output=True, text=True, **more)


def elf(machine=62, loader=b"", size=64):
    """A program that is nothing but its head, and the name of its loader."""
    count = 1 if loader else 0
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    text = loader + b"\0"
    return (head + struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(text), len(text), 1) + text)[: size if not loader else None]


@unittest.skipUnless(SCRIPT.exists() and MODERN, "wheels are built from the source tree, by Python 3.11 or newer")
class Building(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, content=None):
        """A small program of a foreign processor, which is not run, or one that answers with the version."""
        path = self.folder / "weir"
        path.write_bytes(elf(183) if content is None else content)
        path.chmod(0o755)
        return path

    def built(self, program):
        made = build(program, self.folder / "out")
        self.assertEqual(made.returncode, 0, made.stderr)
        return Path(made.stdout.strip())

    def test_a_static_program_gets_the_tags_of_glibc_and_musl(self):
        wheel = self.built(self.program())
        self.assertTrue(wheel.name.startswith(f"weir_lab-{weirlab.__version__}-py3-none-manylinux2014_aarch64."), wheel.name)
        self.assertIn("musllinux_1_1_aarch64", wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            text = archive.read(f"weir_lab-{weirlab.__version__}.dist-info/WHEEL").decode()
        self.assertEqual(set(wheel.stem.split("-")[-1].split(".")), {line[14:] for line in text.splitlines() if line[:5] == "Tag: "})

    def test_a_program_of_musl_or_of_unknown_libraries_gets_their_tags(self):
        musl = self.built(self.program(elf(183, b"/lib/ld-musl-aarch64.so.1")))
        self.assertIn("-py3-none-musllinux_1_2_aarch64.whl", musl.name)
        unknown = self.built(self.program(elf(183, b"/lib/ld-linux-aarch64.so.1")))
        self.assertIn("-py3-none-linux_aarch64.whl", unknown.name)

    def test_the_record_has_the_hash_and_size_of_every_file(self):
        with zipfile.ZipFile(self.built(self.program())) as archive:
            names = archive.namelist()
            record = next(name for name in names if name.endswith("/RECORD"))
            rows = {name: (digest, size) for name, digest, size in csv.reader(archive.read(record).decode().splitlines())}
            self.assertEqual(set(rows), set(names))
            for name in names:
                if name == record:
                    continue
                content = archive.read(name)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual(rows[name], (f"sha256={digest}", str(len(content))), name)
            self.assertEqual(archive.getinfo("weirlab/_bin/weir").external_attr >> 16 & 0o777, 0o755)
            for part in ("weirlab/py.typed", "weirlab/__init__.py"):
                self.assertIn(part, names)
            self.assertEqual(sum("LICENSE" in name for name in names), 2)

    def test_the_same_program_gives_the_same_bytes(self):
        program = self.program()
        first = self.built(program).read_bytes()
        copied = self.folder / "elsewhere"
        copied.mkdir()
        shutil.copy(program, copied / "other-name")
        self.assertEqual(self.built(copied / "other-name").read_bytes(), first)

    def test_what_is_no_program_is_refused(self):
        cases = [(b"#!/bin/sh\n", "no 64-bit little-endian ELF"), (elf(40), "processor 40"), (elf(183)[:30], "cut short")]
        for content, told in cases:
            made = build(self.program(content), self.folder / "out")
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(told, made.stderr)
        missing = build(self.folder / "none", self.folder / "out")
        self.assertIn("there is no file", missing.stderr)
        self.assertFalse(any((self.folder / "out").glob("*.whl*")))

    def test_a_program_of_another_version_is_refused(self):
        made = build(Path(sys.executable).resolve(), self.folder / "out")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("build both from one tree", made.stderr)

    def test_the_version_is_that_of_the_workspace(self):
        manifest = (SCRIPT.parent.parent / "Cargo.toml").read_text()
        self.assertIn(f'version = "{weirlab.__version__}"', manifest.split("[workspace.package]")[1].split("[")[0])

    def test_every_module_can_be_read_by_the_oldest_python(self):
        import ast

        for path in sorted((SCRIPT.parent / "weirlab").glob("*.py")):
            ast.parse(path.read_text(), feature_version=(3, 9))

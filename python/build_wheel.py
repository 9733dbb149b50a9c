#!/usr/bin/env python3
"""Makes the wheel ``weir-lab`` with the command inside, by the standard library alone (Python 3.11 or newer).

usage: build_wheel.py WEIR_BINARY OUT_FOLDER

The same command and sources give the same bytes under one version of zlib: names are sorted, dates are SOURCE_DATE_EPOCH or 1980.
The tag follows from what the command needs. A static one runs on every Linux of its processor and gets the tags of glibc and musl;
one that links to glibc gets the tag of the newest version that it needs; one that needs a library besides gets ``linux_…``, which
package indexes refuse.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
#: Libraries that every Linux with glibc has (PEP 600).
OF_GLIBC = re.compile(r"(libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|ld-linux-[\w-]+)\.so\.\d+")
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF


class Elf:
    """What a program needs: its processor, its loader, libraries, versions of glibc."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.read_bytes()
        if self.bytes[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"error: {path} is no 64-bit little-endian ELF program: give the built command weir")
        number = struct.unpack_from("<H", self.bytes, 18)[0]
        if number not in MACHINES:
            sys.exit(f"error: {path} is for processor {number} of ELF: wheels are made for {', '.join(MACHINES.values())}")
        self.machine = MACHINES[number]
        self.loader, self.needed, self.glibc = "", [], (0, 0)
        try:
            self._read()
        except struct.error:
            sys.exit(f"error: {path} is cut short: its headers point behind its end")

    def _read(self) -> None:
        offset, size, count = *struct.unpack_from("<Q", self.bytes, 32), *struct.unpack_from("<HH", self.bytes, 54)
        heads = [struct.unpack_from("<IIQQQQ", self.bytes, offset + size * at) for at in range(count)]
        self.loads = [(head[3], head[2], head[5]) for head in heads if head[0] == PT_LOAD]
        for kind, _, at, _, _, length in heads:
            if kind == PT_INTERP:
                self.loader = self.bytes[at : at + length].rstrip(b"\0").decode()
            elif kind == PT_DYNAMIC:
                self._dynamic(at, length)

    def _dynamic(self, at: int, length: int) -> None:
        pairs = [struct.unpack_from("<QQ", self.bytes, at + 16 * n) for n in range(length // 16)]
        table = {tag: value for tag, value in pairs}
        names = self._place(table.get(DT_STRTAB, 0))
        self.needed = [self._text(names + value) for tag, value in pairs if tag == DT_NEEDED]
        at = self._place(table.get(DT_VERNEED, 0))
        for _ in range(table.get(DT_VERNEEDNUM, 0)):
            count, _, first, following = struct.unpack_from("<HIII", self.bytes, at + 2)
            version = at + first
            for _ in range(count):
                name, further = struct.unpack_from("<II", self.bytes, version + 8)
                match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", self._text(names + name))
                if match:
                    self.glibc = max(self.glibc, (int(match[1]), int(match[2])))
                version += further
            at += following

    def _place(self, address: int) -> int:
        """Where in the file an address lies."""
        for start, offset, length in self.loads:
            if start <= address < start + length:
                return offset + address - start
        return 0

    def _text(self, at: int) -> str:
        return self.bytes[at : self.bytes.index(b"\0", at)].decode()

    def tags(self) -> list[str]:
        """The platforms of the wheel."""
        machine = self.machine
        if not self.loader:
            return [f"manylinux2014_{machine}", f"manylinux_2_17_{machine}", f"musllinux_1_1_{machine}"]
        if "ld-musl" in self.loader and all(name.startswith("libc.") for name in self.needed):
            return [f"musllinux_1_2_{machine}"]
        if all(OF_GLIBC.fullmatch(name) for name in self.needed) and self.glibc > (0, 0):
            return [f"manylinux_{max(self.glibc, (2, 17))[0]}_{max(self.glibc, (2, 17))[1]}_{machine}"]
        return [f"linux_{machine}"]


def version_of(command: Path, elf: Elf) -> str:
    """The version of the package, which is that of the command; one that cannot run here is taken at its word."""
    text = (HERE / "weirlab" / "_version.py").read_text(encoding="utf-8")
    wanted = re.search(r'__version__ = "([^"]+)"', text)[1]
    if elf.machine != os.uname().machine:
        print(f"note: {command} is for {elf.machine} and does not run here: its version is not compared", file=sys.stderr)
        return wanted
    told = subprocess.run([str(command.absolute()), "--version"], capture_output=True, text=True).stdout.strip()
    if told != f"weir {wanted}":
        advice = f"and the package is of version {wanted}: build both from one tree"
        sys.exit(f"error: {command} --version printed {told[:60]!r}, {advice}")
    return wanted


def metadata(project: dict, version: str) -> str:
    """The text of METADATA."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}"]
    lines += [f"License: {project['license']['text']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Keywords: {','.join(project['keywords'])}"]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {need} ; extra == "{extra}"' for need in needs]
    lines += ["License-File: LICENSE-APACHE", "License-File: LICENSE-MIT", "Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + (HERE / project["readme"]).read_text(encoding="utf-8")


def files_of(command: Path, elf: Elf) -> tuple[str, dict[str, tuple[bytes, int]]]:
    """The name of the wheel, and its files with their modes."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version, tags = version_of(command, elf), elf.tags()
    stem = f"{project['name'].replace('-', '_')}-{version}"
    files: dict[str, tuple[bytes, int]] = {}
    for path in sorted((HERE / "weirlab").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            files[f"weirlab/{path.name}"] = (path.read_bytes(), 0o644)
    files["weirlab/_bin/weir"] = (elf.bytes, 0o755)
    info = f"{stem}.dist-info"
    wheel = ["Wheel-Version: 1.0", "Generator: weir build_wheel.py", "Root-Is-Purelib: false"]
    wheel += [f"Tag: py3-none-{tag}" for tag in tags]
    files[f"{info}/WHEEL"] = (("\n".join(wheel) + "\n").encode(), 0o644)
    files[f"{info}/METADATA"] = (metadata(project, version).encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nweir = weirlab.__main__:main\n", 0o644)
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = ((HERE.parent / name).read_bytes(), 0o644)
    record = f"{info}/RECORD"
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, (content, _) in files.items()]
    files[record] = (("\n".join([*rows, f"{record},,"]) + "\n").encode(), 0o644)
    return f"{stem}-py3-none-{'.'.join(tags)}.whl", files


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def date() -> tuple[int, ...]:
    """The date of every file: SOURCE_DATE_EPOCH, or the earliest that an archive can hold."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    return time.gmtime(max(seconds, 315532800))[:6]


def write(path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """Writes the archive whole or not at all."""
    beside = path.with_name(path.name + ".tmp")
    with zipfile.ZipFile(beside, "w") as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, date())
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)
    beside.replace(path)


def main(arguments: list[str]) -> None:
    """Makes the wheel and prints its path."""
    if len(arguments) != 2:
        sys.exit("usage: build_wheel.py WEIR_BINARY OUT_FOLDER")
    command, out = Path(arguments[0]), Path(arguments[1])
    if not command.is_file():
        sys.exit(f"error: there is no file {command}: build the command first")
    out.mkdir(parents=True, exist_ok=True)
    name, files = files_of(command, Elf(command))
    write(out / name, files)
    print(out / name)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/env python3
"""Prints what is below a directory as `weir trace tree` does: the kind, the size of a file, the path; of a link, what it contains.

    tree.py DIR [--below TREE]    with --below, only names that TREE (the output of `weir trace tree`) has, too
"""
import os, stat, sys


def escaped(name: bytes) -> str:
    """As Rust's escape_ascii."""
    short = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(short.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in name)


def line(root: bytes, path: bytes) -> str:
    full = os.path.join(root, path)
    about = os.lstat(full)
    kinds = [(stat.S_ISREG, "f"), (stat.S_ISDIR, "d"), (stat.S_ISLNK, "l"), (stat.S_ISFIFO, "p"), (stat.S_ISSOCK, "s")]
    kind = next((letter for test, letter in kinds if test(about.st_mode)), "?")
    if kind == "f":
        return f"f {about.st_size} {escaped(path)}"
    return f"{kind} {escaped(path)}" + (f" -> {escaped(os.readlink(full))}" if kind == "l" else "")


def paths(root: bytes):
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            yield os.path.relpath(os.path.join(folder, name), root)


root = os.fsencode(sys.argv[1])
for path in sorted(paths(root)):
    print(line(root, path))

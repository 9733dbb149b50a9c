#!/usr/bin/env python3
"""Licences of every package that some build of the tree contains, against the list that deny.toml allows.

usage: tests/house/licences.py          (Python 3.11 or newer, cargo; what is not yet downloaded comes from the registry)

Each package must offer a licence that is allowed, and come from the registry of crates. A licence that no package needs is told.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def satisfied(expression, allowed):
    """Whether an SPDX expression can be met with these licences; `/` is the old word for OR."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        # An exception only adds rights: the licence alone would do.
        if words[:1] == ["WITH"]:
            del words[:2]
        return word in allowed

    return either()


def canary():
    """Expressions whose answer is known."""
    allowed = {"MIT", "Zlib"}
    met = ["MIT", "GPL-3.0 OR MIT", "Unlicense/MIT", "(MIT OR X) AND Zlib", "MIT WITH Y OR X"]
    unmet = ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "X/Y"]
    return all(satisfied(text, allowed) for text in met) and not any(satisfied(text, allowed) for text in unmet)


def main():
    """Prints what is wrong; exit code 1 if anything is."""
    if not canary():
        sys.exit("error: the reader of licences does not understand its own examples")
    allowed = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"]
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"error: cargo metadata: {told.stderr.strip()}")
    packages = json.loads(told.stdout)["packages"]
    wrong = [f"{one['name']}: {one['license']}" for one in packages if not satisfied(one["license"] or "none", set(allowed))]
    foreign = [one for one in packages if one["source"] and not one["source"].startswith("registry+")]
    wrong += [f"{one['name']}: is from {one['source'].split('+')[0]}, not from the registry" for one in foreign]
    for licence in allowed:
        rest = set(allowed) - {licence}
        if all(satisfied(one["license"] or "none", rest) for one in packages):
            wrong.append(f"deny.toml: no package needs {licence}")
    print("\n".join([*wrong, f"{len(packages)} packages, {len(wrong)} wrong"]))
    sys.exit(1 if wrong else 0)


main()

"""Compares `weir fsck` with e2fsck on damaged images: images.py WEIR FOLDER WORK, where FOLDER has NAME/image.gz for each, or
image.bz2, or image.

Prints a line for each image that differs and a summary; the exit code is 1 where something must not be (see images.sh)."""

import bz2
import gzip
import os
import re
import shutil
import subprocess
import sys

import tree

SECONDS = 60
# How an image lies in the folder of its test, and what opens it.
PACKED = {"image.gz": gzip.open, "image.bz2": bz2.open, "image": open}
# What is left of orphans where only the journal was replayed: weir looks at the image without them, as a mount leaves it, and says so.
OF_ORPHANS = re.compile(r"orphan|[Ff]ree (inodes|blocks) count wrong|[Dd]eleted inode|bitmap differences|^(Fix|Clear|Recreate)[?]|WARNING: Filesystem|% non-contiguous", re.I)
# What e2fsck says where it cannot use an image at all.
UNUSABLE = 8


def run(*command):
    """Exit code and output; 124 where it took too long."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout.decode(errors="replace")


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line]
    return lines[-1] if lines else ""


def complaints(text):
    """What e2fsck says beside its progress."""
    return [line for line in text.splitlines()[1:] if line and not line.startswith(("Pass ", "Fix? ", "Clear? ")) and "no" != line]


class Result:
    """What one image showed."""

    def __init__(self, name):
        self.name, self.faults, self.notes = name, {}, []

    def add(self, kind, what=""):
        self.faults.setdefault(kind, []).append(what)


def e2fsck_until_clean(image):
    """Repairs as a person does: again where it asks for that. Whether the image is clean then."""
    for _ in range(3):
        code, _ = run("e2fsck", "-fy", image)
        if code & ~3:
            return False
        if code == 0:
            return True
    return run("e2fsck", "-fn", image)[0] == 0


def refused_feature(text):
    found = re.search(r"the image uses (.*?), which weir does not support", text)
    if found:
        return found.group(1)
    found = re.search(r"the image has (blocks of .*?);", text)
    return found and found.group(1)


def compare(name, original, weir, work):
    result = Result(name)
    image = lambda kind: os.path.join(work, f"{kind}.img")
    for kind in ("as-it-was", "by-e2fsck", "by-weir"):
        with PACKED[os.path.basename(original)](original, "rb") as packed, open(image(kind), "wb") as out:
            shutil.copyfileobj(packed, out)
        os.chmod(image(kind), 0o600)
    e2fsck_sees, e2fsck_text = run("e2fsck", "-fn", image("as-it-was"))
    before = open(image("as-it-was"), "rb").read()
    weir_sees, text = run(weir, "fsck", image("as-it-was"))
    if open(image("as-it-was"), "rb").read() != before:
        result.add("check changed the image")
    repaired, repair_text = run(weir, "fsck", "--repair", "--force-loss", image("by-weir"))
    for code, said, which in ((weir_sees, text, "check"), (repaired, repair_text, "repair")):
        if code == 124:
            result.add("hang", which)
        if "panicked" in said or code < 0 or code == 70:
            result.add("panic", f"{which}: {last_line(said)}")
    feature = refused_feature(text) or refused_feature(repair_text)
    if feature:
        result.add("refused", feature)
        return result
    if "skipping journal recovery" in e2fsck_text:
        # Weir looks at what the replay leaves, in memory.
        run("e2fsck", "-y", "-E", "journal_only", image("as-it-was"))
        e2fsck_sees, e2fsck_text = run("e2fsck", "-fn", image("as-it-was"))
    said_orphans = "inodes without names were freed" in text
    if weir_sees == 0 and e2fsck_sees != 0 and not (said_orphans and all(map(OF_ORPHANS.search, complaints(e2fsck_text)))):
        result.add("missed damage", "; ".join(complaints(e2fsck_text)[:3]))
    if e2fsck_sees == 0 and weir_sees != 0:
        result.add("clean for e2fsck only", last_line(text))
    usable = e2fsck_until_clean(image("by-e2fsck"))
    if repaired not in (0, 1):
        result.add("not repaired" if usable else "given up by both", last_line(repair_text))
        return result
    code, said = run("e2fsck", "-fn", image("by-weir"))
    if code:
        result.add("not clean for e2fsck", "; ".join(complaints(said)[:4]))
    again, said = run(weir, "fsck", image("by-weir"))
    if again:
        result.add("not clean for weir", last_line(said))
    if usable:
        compare_trees(result, image("by-e2fsck"), image("by-weir"))
    return result


def compare_trees(result, kept, has):
    try:
        for path, what, size in tree.lost(kept, has):
            kind = "moved" if what == "name moved" else "lost"
            result.add(kind, f"{path.decode(errors='replace')}: {what}" + (f" ({size} bytes)" if size else ""))
    except tree.Bad as error:
        result.add("not compared", str(error))


MUST_NOT = ("panic", "hang", "check changed the image", "missed damage", "not clean for e2fsck", "not clean for weir",
            "lost", "not repaired")


def show(result):
    for kind, whats in result.faults.items():
        more = f" and {len(whats) - 3} more" if len(whats) > 3 else ""
        print(f"{result.name:<32} {kind:<22} {' | '.join(whats[:3])}{more}"[:400], flush=True)


def main():
    weir, folder, work, *only = sys.argv[1:]
    results = []
    for name in sorted(os.listdir(folder)):
        for packed in PACKED:
            original = os.path.join(folder, name, packed)
            if os.path.isfile(original) and (not only or name in only):
                results.append(compare(name, original, weir, work))
                show(results[-1])
    count = lambda kind: sum(kind in result.faults for result in results)
    kinds = sorted({kind for result in results for kind in result.faults} | set(MUST_NOT))
    print(f"{len(results)} images: " + ", ".join(f"{count(kind)} {kind}" for kind in kinds))
    bad = any(kind in result.faults for result in results for kind in MUST_NOT)
    sys.exit(1 if bad else 0)


main()

"""The tree of kernel_make.sh, and its comparison of a recorded build with a generated one.

    kernel_make.py tree DIR OBJECTS HEADERS
    kernel_make.py compare RECORDED GENERATED OBJECTS
"""

import collections
import json
import pathlib
import random
import sys

DIRECTORIES = 4
OF_DIRECTORY = 20

# What a kernel's scripts/Makefile.build does for an object: a compilation that lists what it has read, and a program that makes of
# the list a file with the command, under another name first.
MAKEFILE = """\
CC ?= cc
INCLUDES := {includes}
objects := {objects}
all: built-in.a
built-in.a: $(objects)
\t@rm -f $@; ar rcs $@ $(objects)
fixdep: scripts/fixdep
scripts/fixdep: scripts/fixdep.c
\t@$(CC) -O1 -o $@ $<
%.o: %.c
\t@$(CC) -Wp,-MMD,$(@D)/.$(@F).d $(INCLUDES) -O1 -c -o $@ $<
\t@scripts/fixdep $(@D)/.$(@F).d $@ > $(@D)/.$(@F).tmp
\t@rm -f $(@D)/.$(@F).d; mv -f $(@D)/.$(@F).tmp $(@D)/.$(@F).cmd
"""

# Prints the list of dependencies as two variables of make.
FIXDEP = r"""
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    static char word[4096];
    FILE *list = argc == 3 ? fopen(argv[1], "r") : 0;
    if (!list) return 1;
    printf("source_%s := \\\n", argv[2]);
    while (fscanf(list, "%4095s", word) == 1)
        if (strcmp(word, "\\") && word[strlen(word) - 1] != ':') printf("  %s \\\n", word);
    printf("\n%s: $(source_%s)\n", argv[2], argv[2]);
    return fclose(list) != 0;
}
"""


def header(number, rng):
    lines = [f"#ifndef H{number}", f"#define H{number}"]
    lines += [f"struct s{number}_{n} {{ int a[{rng.randrange(1, 40)}]; long b; }};" for n in range(rng.randrange(4, 60))]
    return "\n".join([*lines, f"static inline int h{number}(int x) {{ return x * {number + 1}; }}", "#endif", ""])


def source(number, headers, rng):
    lines = [f'#include "h{n}.h"' for n in range(headers)]
    for n in range(rng.randrange(20, 200)):
        body = f"for (int i = 0; i < x; i++) x += h{rng.randrange(headers)}(i) ^ {rng.randrange(1000)};"
        lines.append(f"int f{number}_{n}(int x) {{ {body} return x; }}")
    return "\n".join([*lines, ""])


def tree(folder, objects, headers):
    rng = random.Random(1)
    folder = pathlib.Path(folder)
    for n in range(DIRECTORIES):
        (folder / f"include/i{n}").mkdir(parents=True)
    for n in range(headers):
        (folder / f"include/i{n % DIRECTORIES}/h{n}.h").write_text(header(n, rng))
    names = [f"d{n // OF_DIRECTORY}/s{n}" for n in range(objects)]
    for n, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.c").write_text(source(n, headers, rng))
    (folder / "scripts").mkdir()
    (folder / "scripts/fixdep.c").write_text(FIXDEP)
    includes = " ".join(f"-Iinclude/i{n}" for n in range(DIRECTORIES))
    text = MAKEFILE.format(includes=includes, objects=" ".join(f"{name}.o" for name in names))
    (folder / "Makefile").write_text(text)


CLASSES = {
    "look-ups": ["stat", "lstat", "fstat", "access", "readlink", "readdir", "getdents"],
    "opens": ["open", "create"],
    "closes": ["close"],
    "reads": ["read", "pread"],
    "writes": ["write", "pwrite"],
    "unlinks": ["unlink"],
    "renames": ["rename"],
    "syncs": ["fsync", "fdatasync"],
}


def samples(path):
    document = json.load(open(path, encoding="utf-8"))
    return [sample for result in document.get("results", [document]) for sample in result["samples"]]


def by_class(sample):
    counts, bytes_of = collections.Counter(), collections.Counter()
    of = {kind: name for name, kinds in CLASSES.items() for kind in kinds}
    for operation in sample["operations"]:
        if operation["kind"] != "program":
            counts[of.get(operation["kind"], "others")] += operation["count"]
            counts["that failed"] += operation.get("errors", 0)
            for name, what in (("reads", "KiB read"), ("writes", "KiB written")):
                bytes_of[what] += operation["bytes"] / 1024 if operation["kind"] in CLASSES[name] else 0
    return counts, bytes_of


def compare(recorded, generated, objects):
    recorded, generated = samples(recorded), samples(generated)
    sums = [by_class(recorded[0]), by_class(generated[0])]
    print(f"{objects} objects; of each{'':6} recorded  app/make-like")
    for name in [*CLASSES, "others", "that failed"]:
        print(f"  {name:22}" + "".join(f"{counts[name] / objects:>10.1f}" for counts, _ in sums))
    for name in sums[0][1]:
        print(f"  {name:22}" + "".join(f"{size[name] / objects:>10.1f}" for _, size in sums))
    for of, what in ((recorded, "recorded"), (generated, "app/make-like")):
        times = {sample["axes"]["fs"]: sample["elapsed_ns"] for sample in of}
        first = next(iter(times))
        each = (f"{fs} {ns / 1e9:.2f} s, {ns / times[first]:.3f} of {first}" for fs, ns in times.items())
        print(f"time of {what}: " + ", ".join(each))
    differing = [sample["counters"]["replay.differing"] for sample in recorded]
    if any(differing) or not all(sample["ops"] for sample in recorded):
        sys.exit(f"FAILED: results differ from the recorded ones: {differing}")
    print("every result of every replay was the recorded one")


if sys.argv[1] == "tree":
    tree(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    compare(sys.argv[2], sys.argv[3], int(sys.argv[4]))

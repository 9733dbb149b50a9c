"""The counts of Weir's plugin beside those of cachegrind: see cachegrind.sh.

cachegrind.py generate                          a text, on the standard output
cachegrind.py words FILE                        its words by number: a program to count
cachegrind.py compare NAME PLUGIN CACHEGRIND    the counts, and whether they are near enough
"""

import sys

# Misses by which the starts of a program differ: what its libraries find out about the processor is not the same.
START = 200

def generate():
    number = 1
    for _ in range(20_000):
        words = []
        for _ in range(8):
            number = (number * 1103515245 + 12345) % 2**31
            words.append(format(number // 65536 % 9000, "x"))
        print(" ".join(words))


def words(path):
    counts = {}
    with open(path) as text:
        for line in text:
            for word in line.split():
                counts[word] = counts.get(word, 0) + 1
    for word in sorted(counts):
        print(word, counts[word])


def compare(name, plugin, cachegrind):
    with open(plugin) as text:
        ours = {key: int(count) for key, count in (line.split() for line in text)}
    with open(cachegrind) as text:
        lines = text.read().splitlines()
    names = next(line for line in lines if line.startswith("events: ")).split()[1:]
    sums = next(line for line in lines if line.startswith("summary: ")).split()[1:]
    theirs = dict(zip(names, map(int, sums)))
    last = sum(ours[f"llc_{who}_misses"] for who in ("load", "store", "fetch"))
    rows = [
        ("D1 misses", ours["l1d_load_misses"] + ours["l1d_store_misses"], theirs["D1mr"] + theirs["D1mw"], 0.02),
        ("I1 misses", ours["l1i_misses"], theirs["I1mr"], 0.03),
        ("LL misses", last, theirs["DLmr"] + theirs["DLmw"] + theirs["ILmr"], 0.05),
    ]
    print(f"{name}: {ours['instructions']:,} instructions, by cachegrind {theirs['Ir']:,}")
    bad = False
    for what, one, other, band in rows:
        off = one / other - 1
        beyond = abs(off) > band and abs(one - other) > START
        bad |= beyond
        print(f"  {what:10} {one:>12,} {other:>12,} {off:+8.2%}  {'BEYOND' if beyond else 'within'} {band:.0%}")
    return int(bad)


action, *rest = sys.argv[1:]
sys.exit({"generate": generate, "words": words, "compare": compare}[action](*rest))

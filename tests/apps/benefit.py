"""The buffer benefit model of HiNFS (EuroSys 2016, section 3.3.2) on a trace of MobiGen's format, from the trace's text alone.

benefit.py generate                                       a trace, on the standard output
benefit.py compare NAME TRACE RULE RESULT [RIGHT ALL]     its predictions beside those of a result of weir bench

A block of 4 KiB has 64 lines. Between two syncs of its file CW line writes hit it, of CF different lines. At the sync buffering would
have cost CW * 50 ns + CF * 200 ns, writing directly CW * 200 ns. The cheaper way is the block's state until its next sync. A
prediction is right if the state that a block had is the one that its sync finds. RULE says the state of a block that is new: `lazy`
(buffered), or `inherit`, that of the block of the file that was judged last.
"""

import json
import random
import sys

LINE, BLOCK = 64, 4096
DRAM_NS, MEDIUM_NS = 50, 200


class File:
    def __init__(self):
        self.truncate()
        self.inherited = False

    def truncate(self):
        self.eager = {}  # of blocks that were written: whether the next write goes directly
        self.lines = {}  # of blocks with writes since the last sync: each line that a write hit
        self.size = 0

    def write(self, offset, length, rule):
        end = offset + length
        while offset < end:
            block = offset // BLOCK
            upto = min(end, (block + 1) * BLOCK)
            if block not in self.eager:
                self.eager[block] = rule == "inherit" and self.inherited
            self.lines.setdefault(block, []).extend(range(offset // LINE, (upto - 1) // LINE + 1))
            offset = upto

    def sync(self):
        right = 0
        # Blocks that were written directly are judged in the order in which they were first written, then the buffered ones.
        direct = [block for block in self.lines if self.eager[block]]
        buffered = sorted(block for block in self.lines if not self.eager[block])
        for block in direct + buffered:
            hits = self.lines[block]
            buffering = len(hits) * DRAM_NS + len(set(hits)) * MEDIUM_NS
            eager = not buffering < len(hits) * MEDIUM_NS
            right += eager == self.eager[block]
            self.eager[block] = self.inherited = eager
        judged = len(self.lines)
        self.lines = {}
        return right, judged


def predictions(path, rule):
    """How many are right, and how many there are."""
    lines = []
    for number, text in enumerate(open(path, encoding="utf-8")):
        words = text.split()
        if words:
            lines.append((int(words[1]), number, words[2], words[3:]))
    lines.sort(key=lambda line: line[:2])
    by_name, by_descriptor, right, judged = {}, {}, 0, 0
    for _, number, call, words in lines:
        if call == "open":
            name, flags, descriptor = words
            # A name without quotes is made up for a descriptor that the recorder had not seen opened: a file of its own.
            key = name if name.startswith('"') else (name, number)
            file = by_name.setdefault(key, File())
            if not flags.startswith("O_RDONLY"):
                file.truncate()
            by_descriptor[descriptor] = [file, 0]
        elif call == "unlink":
            by_name.pop(words[0], None)
        elif call == "close":
            by_descriptor.pop(words[0], None)
        elif words and words[0] in by_descriptor:
            file, position = by_descriptor[words[0]]
            if call in ("fsync", "fdatasync"):
                one, other = file.sync()
                right, judged = right + one, judged + other
            elif call == "pwrite":
                file.write(int(words[1]), int(words[2]), rule)
            elif call == "write":
                file.write(position, int(words[1]), rule)
                by_descriptor[words[0]][1] += int(words[1])
            elif call == "read":
                by_descriptor[words[0]][1] += int(words[1])
    return right, judged


def generate():
    """Databases with journals, logs, and files that are rewritten in tiny pieces, by eight threads."""
    rng, now, out = random.Random(42), 0, []

    def tell(thread, text):
        nonlocal now
        now += rng.randrange(5, 400)
        out.append((thread, now, text))

    for database in range(6):
        tell(database, f'open "/data/data/app{database}/databases/main.db" O_RDWR|O_CREAT {20 + database}')
        for page in range(40):
            tell(database, f"pwrite {20 + database} {page * BLOCK} {BLOCK}")
        tell(database, f"fsync {20 + database}")
    tell(6, "open data/data O_RDWR 40")
    tell(7, 'open "/data/data/app7/log" O_WRONLY|O_CREAT|O_APPEND 41')
    for transaction in range(900):
        database = rng.randrange(6)
        main = 20 + database
        journal = f'"/data/data/app{database}/databases/main.db-journal"'
        tell(database, f"open {journal} O_RDWR|O_CREAT 30")
        tell(database, "write 30 512")
        pages = [rng.randrange(40) for _ in range(rng.randrange(1, 5))]
        for _ in pages:
            for length in (4, BLOCK, 4):
                tell(database, f"write 30 {length}")
        tell(database, "fsync 30")
        for page in pages:
            # Some pages are changed in small pieces, again and again: there the buffer pays.
            if page % 8 == 0:
                for _ in range(rng.randrange(3, 9)):
                    tell(database, f"pwrite {main} {page * BLOCK + 64 * rng.randrange(3)} {rng.randrange(8, 64)}")
            else:
                tell(database, f"pwrite {main} {page * BLOCK} {rng.choice([1024, BLOCK, BLOCK, BLOCK])}")
        tell(database, f"fsync {main}")
        tell(database, "close 30")
        if rng.randrange(4) == 0:
            tell(database, f"unlink {journal}")
        for descriptor, sizes in ((40, (1, 36)), (41, (40, 120, 200))):
            for _ in range(rng.randrange(0, 9)):
                tell(descriptor - 34, f"write {descriptor} {rng.choice(sizes)}")
        if transaction % 7 == 0:
            tell(7, "fdatasync 41")
        if transaction % 50 == 0:
            tell(6, "fsync 40")
    # The traces stand thread by thread.
    for thread, at, text in sorted(out, key=lambda line: (line[0], line[1])):
        print(thread, at, text)


def compare(name, trace, rule, result, wanted=None, of=None):
    right, judged = predictions(trace, rule)
    document = json.load(open(result, encoding="utf-8"))
    samples = [sample for one in document.get("results", [document]) for sample in one["samples"]]
    (sample,) = samples
    found = sample["counters"]["fs.predictions_right"]
    missed = sample["counters"]["fs.predictions_wrong"]
    share, ours = found / (found + missed), right / judged
    ok = abs(share / ours - 1) <= 0.01 and abs((found + missed) / judged - 1) <= 0.01
    print(f"{name}, new blocks {rule}: weir {found} of {found + missed} right ({share:.4f}), "
          f"from the text {right} of {judged} ({ours:.4f})")
    if wanted and rule == "lazy":
        published = int(wanted) / int(of)
        ok &= abs(share / published - 1) <= 0.01
        print(f"{name}: {wanted} of {of} are wanted ({published:.4f})")
    print("ok" if ok else "FAILED")
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1] == "generate":
        generate()
    else:
        sys.exit(compare(*sys.argv[2:]))

#!/usr/bin/env python3
"""What bends a curve of the models of Linux's file systems is a named object: controls of `weir reproduce fxmark-kernel`.

    mechanism.py mechanism RESULT [FS/BENCHMARK ...]   free the first object, the first two, and one outside of the row
    mechanism.py placebo RESULT                        exchange two file systems' columns of classes
    mechanism.py robustness RESULT                     private work x0.6 and x1.7, lines that move with a lock x0.5 and x2
    mechanism.py newer RESULT                          Linux 6.12: the classes that were predicted before its first run

RESULT is a result of plan fxmark-kernel (`weir reproduce fxmark-kernel/summary --quick -o RESULT`). Cells are run as that result's,
--quick if it was. $WEIR is the command (default: weir). A check that fails is printed, and ends the program with 1.

mechanism: of each cell whose curve does not scale, the rate with the most cores rises by half when the lock or line that is waited
for most is free, or that and the second; and changes by less than 5 % when an object is free that this cell does not wait for and
another benchmark of the file system does.
"""
import gzip, json, os, pathlib, subprocess, sys, tempfile, tomllib

WEIR = os.environ.get("WEIR", "weir")
TREE = pathlib.Path(__file__).resolve().parents[2]
PLAN = tomllib.loads((TREE / "presets/plans/fxmark-kernel.toml").read_text())
PAPER = tomllib.loads((TREE / "presets/papers/fxmark-kernel.toml").read_text())
RAISES, SAME = 1.5, 0.05
CHANGED_CELLS = 5


def read(path):
    """The samples of the result's plan fxmark-kernel, and whether it was scaled down."""
    data = pathlib.Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    results = document.get("results", [document])
    found = [result for result in results if result["name"] == "fxmark-kernel"]
    if not found:
        sys.exit(f"{path}: no result of plan fxmark-kernel")
    return found[0]["samples"]


def curves(samples):
    """Rates by threads of each file system and benchmark."""
    found = {}
    for sample in samples:
        axes = sample["axes"]
        cell = found.setdefault((axes["fs"], axes["workload"]), {})
        cell[int(axes["threads"])] = sample["throughput_ops_per_s"]
    return found


def letter(curve):
    """The class of a curve, as crates/results/src/curve.rs has it."""
    counts = sorted(curve)
    first, last = curve[counts[0]], curve[counts[-1]]
    best = max(curve.values()) / first
    end = last / first
    if end >= 0.6 * counts[-1] / counts[0]:
        return "L"
    if end < 0.7 * best:
        return "C"
    return "S" if best >= 2 else "F"


def waits(sample):
    """What the operations of a sample waited for, the most first."""
    sums = {}
    for operation in sample["operations"]:
        for key in ("lock_wait_ns", "line_wait_ns"):
            for name, ns in operation.get(key, {}).items():
                sums[name] = sums.get(name, 0) + ns
    return sorted(sums, key=lambda name: (-sums[name], name))


def verdict(good):
    return "ok  " if good else "FAIL"


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def run(quick, workloads, machine="fxmark-server", extra=None, **axes):
    """Runs cells of the plan; their samples."""
    plan = dict(PLAN["plan"], machine=machine)
    text = "[plan]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in plan.items())
    for axis, values in axes.items():
        text += f"[[axis]]\n{axis} = {toml(values)}\n"
    text += '[[axis]]\nmedium = ["dram"]\n'
    if extra:
        text += "[fs]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in extra.items())
    for workload in PLAN["workload"]:
        if workload.get("label", workload["name"]) in workloads:
            text += "[[workload]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in workload.items())
    text += f'[quick]\nnote = "as the plan"\nstop = {toml(PLAN["quick"]["stop"])}\n'
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.toml"
        file.write_text(text)
        command = [WEIR, "run", str(file), "--json", "--quiet", "--robust=no"] + ["--quick"] * quick
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        # 1: nothing waited for what was free, as it is meant for an object outside of the row.
        if done.returncode not in (0, 1) or not done.stdout:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{text}")
        document = json.loads(done.stdout)
    return [sample for result in document.get("results", [document]) for sample in result["samples"]]


def is_quick(samples):
    return len({sample["axes"]["threads"] for sample in samples}) <= len(PLAN["quick"]["axis"]["threads"])


def mechanism(samples, only):
    quick, most = is_quick(samples), max(int(sample["axes"]["threads"]) for sample in samples)
    last = {(s["axes"]["fs"], s["axes"]["workload"]): s for s in samples if int(s["axes"]["threads"]) == most}
    wanted = lambda fs, workload: not only or f"{fs}/{workload.split('/')[-1]}" in only
    checked, failed = 0, 0
    for (fs, workload), curve in curves(samples).items():
        if letter(curve) == "L" or not wanted(fs, workload):
            continue
        waited = waits(last[fs, workload])
        others = [name for (other, _), sample in last.items() if other == fs for name in waits(sample)]
        outside = next((name for name in others if name not in waited), None)
        first, two = waited[:1], waited[:2]
        values = ["nothing"] + ["+".join(names) for names in (first, two) if names] + ([outside] if outside else [])
        values = list(dict.fromkeys(values))
        rates = {
            sample["axes"]["free"]: sample["throughput_ops_per_s"]
            for sample in run(quick, [workload], fs=[fs], threads=[most], free=values)
        }
        held = rates["nothing"]
        gains = [rates["+".join(names)] / held for names in (first, two) if names]
        change = rates[outside] / held - 1 if outside else 0
        good = max(gains, default=0) >= RAISES and abs(change) < SAME
        checked, failed = checked + 1, failed + (not good)
        told = ", ".join(f"x{gain:.2f}" for gain in gains)
        names = " then ".join(two)
        what = f"{verdict(good)} {fs:13} {workload.split('/')[-1]:12} {names}: {told}; {outside}: {change:+.1%}"
        print(what, flush=True)
    print(f"{checked - failed} of {checked} cells")
    return failed


def published():
    """Letters of the contrast cells, and of all."""
    cell = lambda at: (at["fs"], "fxmark/" + at["workload"])
    rows = lambda measure: {cell(row["at"]): row["are"] for row in measure["classes"]}
    contrast = next(claim for claim in PAPER["claim"] if claim["id"] == "fxmark.k.contrast")
    return rows(contrast["measure"]), rows(PAPER["tally"][0]["measure"])


def placebo(samples):
    measured = {cell: letter(curve) for cell, curve in curves(samples).items()}
    contrast, every = published()
    score = lambda classes: sum(classes[cell] in letters for cell, letters in contrast.items())
    systems, failed = sorted({fs for fs, _ in measured}), 0
    for place, one in enumerate(systems):
        for other in systems[place + 1 :]:
            swap = {one: other, other: one}
            swapped = {(fs, w): measured[swap.get(fs, fs), w] for fs, w in measured}
            separated = [
                w for (fs, w), letters in contrast.items()
                if fs in swap and measured[fs, w] in letters and not set(letters) & set(every[swap[fs], w])
            ]
            fall = score(measured) - score(swapped)
            good = fall >= len(separated)
            failed += not good
            parts = f"{len(separated)} right contrast cells part them; the score falls by {fall}"
            print(f"{verdict(good)} {one} and {other}: {parts}")
    print(f"contrast {score(measured)} of {len(contrast)}")
    return failed


def scaled(factor, folder):
    """The machine with its private work times `factor`: not its locks, lines and copies."""
    shared = {"lock", "line_same_socket", "line_cross_socket", "wakeup", "futex"}
    text = (TREE / "presets/machines/fxmark-server.toml").read_text()
    lines, table = [], ""
    for line in text.splitlines():
        table = line if line.startswith("[") else table
        key = line.split(" = ")[0]
        if table in ("[work]", "[kernel.path]") and "{ ns = " in line and key not in shared:
            before, rest = line.split("{ ns = ")
            ns, after = rest.split(",", 1)
            line = f"{before}{{ ns = {float(ns) * factor:.1f},{after}"
        lines.append(line)
    file = pathlib.Path(folder) / f"scaled-{factor}.toml"
    file.write_text("\n".join(lines))
    return str(file)


def robustness(samples):
    quick = is_quick(samples)
    base = {cell: letter(curve) for cell, curve in curves(samples).items()}
    contrast, every = published()
    threads = sorted({int(sample["axes"]["threads"]) for sample in samples})
    workloads = sorted({workload for _, workload in base})
    systems, failed = sorted({fs for fs, _ in base}), 0
    with tempfile.TemporaryDirectory() as folder:
        variants = [(f"private work x{factor}", scaled(factor, folder), None) for factor in (0.6, 1.7)]
        for word in ("half", "double"):
            variants.append((f"lines that move with a lock: {word}", "fxmark-server", {"touches": word}))
        for what, machine, extra in variants:
            ran = run(quick, workloads, machine, extra, fs=systems, threads=threads)
            found = {cell: letter(curve) for cell, curve in curves(ran).items()}
            changed = [cell for cell in base if found[cell] != base[cell]]
            right = sum(found[cell] in letters for cell, letters in every.items())
            apart = sum(found[cell] in letters for cell, letters in contrast.items())
            good = len(changed) <= CHANGED_CELLS
            failed += not good
            score = f"{right} right, {apart} of the contrast cells"
            print(f"{verdict(good)} {what}: {len(changed)} of {len(base)} cells change; {score}", flush=True)
            short = lambda name: name.split("/")[-1]
            print("     " + ", ".join(f"{short(fs)} {short(w)} {base[fs, w]}{found[fs, w]}" for fs, w in changed))
    return failed


# What Linux 6.12 was predicted to do before a cell of it was run, DWOL of tmpfs, ext4 and XFS excepted: letters by benchmark, of all
# file systems or of those named. "=": the class that 4.2 has.
PREDICTED = [
    ("MRDM-compat", None, "LSF", "listings share the directory"),
    ("DWOL", {"ext4", "f2fs"}, "L", "no handle, no cp_rwsem for an overwrite"),
    ("DWAL", {"ext4"}, "LS", "no handle"),
    ("DWTL", {"tmpfs"}, "LS", "memory is given back in batches"),
    ("DWOM", None, "=", "one writer a file"),
    ("DRBM", {"xfs"}, "=", "readers share a semaphore"),
    ("DRBH", None, "=", "one count for each page"),
    ("MRPM-compat", None, "=", "one count for each dentry"),
    ("MRPH", None, "=", "one count for each dentry"),
    ("MWCM", None, "=", "one change of a directory at a time"),
    ("MWUM", None, "=", "one change of a directory at a time"),
    ("MWRM", None, "=", "one move between directories at a time"),
]


def newer(samples):
    quick = is_quick(samples)
    base = {cell: letter(curve) for cell, curve in curves(samples).items()}
    threads = sorted({int(sample["axes"]["threads"]) for sample in samples})
    short = lambda name: name.split("/")[-1]
    workloads = sorted({workload for _, workload in base if short(workload) in {row[0] for row in PREDICTED}})
    ran = run(quick, workloads, extra={"kernel": "6.12"}, fs=sorted({fs for fs, _ in base}), threads=threads)
    found = {(short(fs), short(workload)): letter(curve) for (fs, workload), curve in curves(ran).items()}
    before = {(short(fs), short(workload)): one for (fs, workload), one in base.items()}
    failed = 0
    for workload, systems, letters, why in PREDICTED:
        cells = sorted(cell for cell in found if cell[1] == workload and (not systems or cell[0] in systems))
        wrong = [cell for cell in cells if found[cell] not in (before[cell] if letters == "=" else letters)]
        failed += bool(wrong) or not cells
        classes = ", ".join(f"{fs} {before[fs, workload]}{found[fs, workload]}" for fs, _ in cells)
        print(f"{verdict(cells and not wrong)} {workload:12} {letters:3} ({why}): {classes}", flush=True)
    return failed


def main():
    checks = {"mechanism": mechanism, "placebo": placebo, "robustness": robustness, "newer": newer}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    samples = read(sys.argv[2])
    what, more = sys.argv[1], sys.argv[3:]
    failed = mechanism(samples, more) if what == "mechanism" else checks[what](samples)
    sys.exit(1 if failed else 0)


main()

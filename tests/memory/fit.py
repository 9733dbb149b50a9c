#!/usr/bin/env python3
"""Constants of `ddr` from published rows, and how the formula predicts what it was not fitted on.

Each share of reads of a system is predicted from its other shares, and each system from the shape of the others. Beside each error
stand those of an idle latency at every traffic and of a queue of constant service a channel (M/D/1), which are given the measured idle
latency and greatest traffic. A control exchanges the shares of reads among the curves: the formula must then be wrong.

usage: tests/memory/fit.py [--weir WEIR] [ROWS.toml]     (rows: presets/validation/memory.toml)
       --weir: predictions are what `weir sim medium ddr,… --loaded` measures, and not the formula
"""
import json, math, pathlib, re, subprocess, sys, tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANNELS = 8  # of the queue's servers
NEAREST = 0.97  # the formula comes no nearer to its pole
LIGHT = 0.9  # of the greatest traffic: above it a curve is a wall


class Share:
    """A measured curve of one share of reads: points are (traffic in GB/s, ns)."""

    def __init__(self, reads):
        self.writes, self.idle, self.most, self.points = 1 - reads / 100, None, None, []


class System:
    def __init__(self, name, peak, threads):
        self.name, self.peak, self.threads, self.shares = name, peak, threads, {}

    @property
    def idle(self):
        known = [share.idle for share in self.shares.values()]
        return sum(known) / len(known)


def peak_of(command):
    """The peak of the memory that a row's command names: that of spr-server, or of its parameters."""
    said = dict(re.findall(r"(channels|rate|width)=(\d+)", command))
    return int(said.get("channels", 8)) * int(said.get("rate", 4800)) * int(said.get("width", 64)) / 8000


def systems_of(path):
    systems = {}
    for row in tomllib.loads(path.read_text())["row"]:
        named = re.fullmatch(r"(mess\.[a-z0-9.]+?)\.rd(\d+)\.(idle|max|bw\d+)", row["id"])
        if not named or row["class"] == "cxl":
            continue
        name, reads, kind = named.groups()
        threads = int(re.search(r"--threads (\d+)", row["command"] + " --threads 0")[1])
        system = systems.setdefault(name, System(name, peak_of(row["command"]), threads))
        system.threads = max(system.threads, threads)
        share = system.shares.setdefault(int(reads), Share(float(reads)))
        if kind == "idle":
            share.idle = row["published"]
        elif kind == "max":
            share.most = row["published"]
        else:
            traffic = float(re.search(r"--traffic ([\d.]+)GB/s", row["command"])[1])
            share.points.append((traffic, row["published"]))
    return {name: one for name, one in systems.items() if all(s.idle and s.most and s.points for s in one.shares.values())}


# ---- the formula ----

KEYS = ("a", "b", "b1", "c0", "c1", "c2", "k")
# Where a fit begins; nothing is taken from it but the place.
START = {"a": 20.0, "b": 10.0, "b1": 3.0, "c0": 0.85, "c1": 0.2, "c2": 0.25, "k": 0.9}


def part(w, c2):
    return w / (w + c2)


def usable(c, w):
    """E(w): the part of the peak that the bus can carry."""
    return c["c0"] - c["c1"] * part(w, c["c2"])


def latency(c, peak, idle, traffic, w, most=None):
    """`most`: a greatest traffic that is known, instead of k · E(w) · P."""
    x = min(traffic / (peak * usable(c, w)) if most is None else c["k"] * traffic / most, NEAREST)
    return idle + c["a"] * traffic / peak + c["b"] * (1 + c["b1"] * w) * x / (1 - x)


def queue(idle, traffic, most):
    busy = min(traffic / most, 0.99)
    return idle + busy / (2 * (1 - busy)) * 64 / (most / CHANNELS)


def least(function, start, steps=4000):
    """The simplex method of Nelder and Mead, from `start`; a parameter below zero is refused."""
    def of(x):
        return math.inf if min(x) < 0 else function(x)
    n = len(start)
    simplex = [list(start)] + [[v * (1.25 if i == j else 1) for j, v in enumerate(start)] for i in range(n)]
    values = [of(x) for x in simplex]
    for _ in range(steps):
        order = sorted(range(n + 1), key=values.__getitem__)
        simplex, values = [simplex[i] for i in order], [values[i] for i in order]
        if values[-1] - values[0] < 1e-12:
            break
        middle = [sum(x[j] for x in simplex[:-1]) / n for j in range(n)]
        def along(t):
            x = [m + t * (m - w) for m, w in zip(middle, simplex[-1])]
            return of(x), x
        found = along(1.0)
        if found[0] < values[0]:
            found = min(found, along(2.0), key=lambda pair: pair[0])
        elif found[0] >= values[-2]:
            found = min(found, along(-0.5), along(0.5), key=lambda pair: pair[0])
        if found[0] < values[-1]:
            values[-1], simplex[-1] = found
        else:
            simplex = [[(a + b) / 2 for a, b in zip(x, simplex[0])] for x in simplex]
            values = [of(x) for x in simplex]
    return simplex[values.index(min(values))]


def fitted(shares, peak, idle):
    """Constants of one system, by the squares of relative errors of its loaded points; k by its greatest traffics."""
    names = KEYS[:-1]
    def wrong(x):
        c = dict(zip(names, x))
        if any(usable(c, s.writes) * peak < 0.5 * s.most for s in shares):
            return math.inf
        return sum((latency(c, peak, idle, t, s.writes) / ns - 1) ** 2 for s in shares for t, ns in s.points)
    x = [START[name] for name in names]
    for _ in range(4):  # a simplex may shrink too early
        x = least(wrong, x)
    c = dict(zip(names, x))
    c["k"] = sum(s.most / (usable(c, s.writes) * peak) for s in shares) / len(shares)
    return c


def shape(systems):
    """A shape for systems without curves, by all loaded points of others: latency by the measured greatest traffic, and the greatest
    traffic as a part of the peak."""
    every = [(one, s) for one in systems for s in one.shares.values()]
    def slow(x):
        c = dict(zip(("a", "b", "b1", "k"), x))
        if not 0.5 <= c["k"] <= NEAREST:
            return math.inf
        return sum((latency(c, one.peak, one.idle, t, s.writes, s.most) / ns - 1) ** 2 for one, s in every for t, ns in s.points)
    def small(x):
        c = dict(zip(("c0", "c1", "c2"), x))
        return sum((usable(c, s.writes) * one.peak / s.most - 1) ** 2 for one, s in every)
    c = dict(zip(("a", "b", "b1", "k"), least(slow, [START[name] for name in ("a", "b", "b1", "k")])))
    most = dict(zip(("c0", "c1", "c2"), least(small, [0.78, 0.2, 0.2])))
    return {**c, "c0": most["c0"] / c["k"], "c1": most["c1"] / c["k"], "c2": most["c2"]}


# ---- errors ----


def middle(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


class Errors:
    """Parts by which predictions are wrong, of all loaded points and of those up to nine tenths of the greatest traffic."""

    def __init__(self):
        self.all, self.light = [], []

    def add(self, found, share, traffic, ns):
        wrong = abs(found / ns - 1)
        self.all.append(wrong)
        if traffic <= LIGHT * share.most:
            self.light.append(wrong)

    def words(self):
        def few(values):
            return f"{100 * sum(values) / len(values):5.1f} {100 * middle(values):5.1f} {100 * max(values):5.1f}"
        return f"{few(self.all)} | {few(self.light)}"

    @property
    def mean(self):
        return sum(self.all) / len(self.all)


HEAD = f"{'':44}  n   mean   med   max | up to 0.9: mean, med, max (in %)"


def told(name, predict, shares, idle):
    """Prints the errors of a prediction beside those of the two that know nothing of load; returns all three."""
    errors = [Errors(), Errors(), Errors()]
    for s in shares:
        found = predict(s)
        for (traffic, ns), one in zip(s.points, found):
            for error, value in zip(errors, (one, idle, queue(idle, traffic, s.most))):
                error.add(value, s, traffic, ns)
    for what, error in zip((name, "  an idle latency", "  a queue (M/D/1)"), errors):
        print(f"{what:44} {len(error.all):3}  {error.words()}")
    return errors


class Predictor:
    """The formula, or the command that has it."""

    def __init__(self, weir):
        self.weir = weir

    def points(self, c, system, idle, s, known=None):
        if self.weir is None:
            most = None if known is None else hyperbola(known, c["c2"], s.writes)
            return [latency(c, system.peak, idle, t, s.writes, most) for t, _ in s.points]
        medium = f"ddr,channels=1,width=64,rate={round(system.peak * 125)},idle={idle:.3f}ns"
        medium += "".join(f",{key}={c[key]:.5f}{'ns' if key in 'ab' else ''}" for key in KEYS)
        if known is not None:
            for name, (w, most) in zip(("max_reads", "max_mixed"), known):
                medium += f",{name}={most * 1000:.0f}MB/s@{100 - 100 * w:.0f}"
        traffic = ",".join(f"{t}GB/s" for t, _ in s.points)
        command = [self.weir, "sim", "medium", medium, "--loaded", "--traffic", traffic, "--reads", f"{100 - 100 * s.writes:.0f}",
                   "--threads", str(max(system.threads - 1, 1)), "--time", "400us", "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return [one["value"] for one in json.loads(done.stdout)["measured"]]


def hyperbola(known, c2, w):
    """The greatest traffic through two that are known."""
    (w1, most1), (w2, most2) = known
    return most1 + (most2 - most1) * (part(w, c2) - part(w1, c2)) / (part(w2, c2) - part(w1, c2))


def constants(c):
    return ", ".join(f"{key} {c[key]:.4g}" for key in KEYS if key in c)


def main():
    words = sys.argv[1:]
    weir = None
    if "--weir" in words:
        at = words.index("--weir")
        weir = str(pathlib.Path(words[at + 1]).resolve())
        del words[at:at + 2]
    path = pathlib.Path(words[0]) if words else ROOT / "presets/validation/memory.toml"
    systems, predictor, wrong = systems_of(path), Predictor(weir), []
    if len(systems) < 2 or not any(name.startswith("mess.spr8480") for name in systems):
        sys.exit(f"{path}: it has not the curves of two systems, one of them mess.spr8480")
    own = next(one for name, one in systems.items() if name.startswith("mess.spr8480"))

    print("constants of spr-server, from all of its shares:")
    all_shares = list(own.shares.values())
    c = fitted(all_shares, own.peak, own.idle)
    print(f"  idle {own.idle:.1f}, {constants(c)}")
    print(HEAD)
    errors = told("its own shares (fitted)", lambda s: predictor.points(c, own, own.idle, s), all_shares, own.idle)
    if errors[0].mean > 0.01:
        wrong.append("the fit of its own shares is worse than 1 % in the mean")
    turned = dict(zip(own.shares, list(own.shares)[1:] + list(own.shares)[:1]))
    def exchanged(s):
        reads = next(reads for reads, one in own.shares.items() if one is s)
        return [latency(c, own.peak, own.idle, t, own.shares[turned[reads]].writes) for t, _ in s.points]
    errors = told("control: shares exchanged among curves", exchanged, all_shares, own.idle)
    if errors[0].mean < 0.15:
        wrong.append("with the shares of reads exchanged the formula is still within 15 %: it does not depend on them")

    print("\none share left out, predicted from the other shares of the system")
    print(HEAD)
    means = []
    for system in systems.values():
        for reads, s in system.shares.items():
            rest = [one for one in all_or(system.shares) if one is not s]
            c = fitted(rest, system.peak, system.idle)
            means.append(told(f"{system.name} {reads} % reads", lambda s: predictor.points(c, system, system.idle, s), [s], system.idle))
    means = [100 * sum(sum(one.all) for one in of) / sum(len(one.all) for one in of) for of in zip(*means)]
    print("all of these: mean {:.1f} %, an idle latency {:.1f} %, a queue {:.1f} %".format(*means))
    if means[0] > 0.5 * min(means[1:]):
        wrong.append("a share left out is predicted no better than by half of what knows nothing of load")

    print("\none system left out: the shape of the others; A: data sheet and idle latency, B: two greatest bandwidths as well")
    print("(HBM is in no shape: its greatest traffic is bound by cores)")
    print(HEAD)
    for system in systems.values():
        c = shape([one for one in systems.values() if one is not system and "hbm" not in one.name])
        shares = all_or(system.shares)
        ends = [(s.writes, s.most) for s in (shares[0], shares[-1])]
        told(f"{system.name}: A", lambda s: predictor.points(c, system, system.idle, s), shares, system.idle)
        told(f"{system.name}: B", lambda s: predictor.points(c, system, system.idle, s, ends), shares, system.idle)
        greatest = [abs(c["k"] * usable(c, s.writes) * system.peak / s.most - 1) for s in shares]
        between = [abs(hyperbola(ends, c["c2"], s.writes) / s.most - 1) for s in shares[1:-1]]
        print(f"  greatest traffic, A: mean {100 * sum(greatest) / len(greatest):.1f} %, most {100 * max(greatest):.1f} %; "
              f"B, between the two: {', '.join(f'{100 * one:.1f} %' for one in between) or 'none'}")
    for what in wrong:
        print(f"wrong: {what}")
    sys.exit(bool(wrong))


def all_or(shares):
    """By the part that is written."""
    return sorted(shares.values(), key=lambda s: s.writes)


main()

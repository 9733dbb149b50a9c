"""Compares two documents of fio: usage: keys.py OF_FIO OF_WEIR. Every path of the first is in the second; the options are equal."""

import json
import sys


def paths(value, place=()):
    """Each path to a value, with its type; names of percentiles and classes of histograms are not compared."""
    if isinstance(value, dict) and place[-1:] != ("bins",):
        for key, inner in value.items():
            yield from paths(inner, (*place, key))
    else:
        yield place, type(value)


def shown(place):
    return ".".join(map(str, place))


of_fio, of_weir = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
# Where the files lie, and the host's disks, are none of Weir's.
of_fio["global options"].pop("directory", None)
of_fio.pop("disk_util", None)
assert of_fio["global options"] == of_weir["global options"], of_weir["global options"]
assert [job["jobname"] for job in of_fio["jobs"]] == [job["jobname"] for job in of_weir["jobs"]]
missing = [(key,) for key in of_fio if key not in of_weir]
compared = 0
for theirs, ours in zip(of_fio["jobs"], of_weir["jobs"]):
    have = dict(paths(ours))
    for place, kind in paths(theirs):
        compared += 1
        if place not in have:
            missing.append((theirs["jobname"], *place))
        elif {kind, have[place]} & {str, dict} and kind is not have[place]:
            missing.append((theirs["jobname"], *place, f"{have[place].__name__} instead of {kind.__name__}"))
    assert theirs["job options"].items() <= ours["job options"].items(), ours["job options"]
    for way in ("read", "write", "trim"):
        same = ("total_ios", "io_bytes")
        # A random mix may fall otherwise; its sum is that of the file.
        if theirs["job options"]["rw"] != "randrw":
            assert [theirs[way][key] for key in same] == [ours[way][key] for key in same], (theirs["jobname"], way)
    totals = [sum(job[way]["io_bytes"] for way in ("read", "write", "trim")) for job in (theirs, ours)]
    assert totals[0] == totals[1], totals
    syncs = [job["sync"]["total_ios"] for job in (theirs, ours)]
    # fio does not sync after the last write of a job, Weir does.
    assert abs(syncs[0] - syncs[1]) <= 1, syncs
assert not missing, "\n".join(map(shown, missing))
print(f"{compared} keys of fio are there, options, I/Os and bytes are the same")

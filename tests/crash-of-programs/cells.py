"""Compares what models break with what they must: cells.py CASE FOUND.json MODEL=LETTERS …; prints what differs.

With SCORES=FILE a line for each cell is added there: case, model, found, expected, trees, points, states. A null model is compared
with the cells of ext4.
"""
import json
import os
import sys

case, path, *pairs = sys.argv[1:]
found = json.load(open(path))
if "models" not in found:
    sys.exit(print(found["error"]["message"]) or 1)
expected = dict(pair.rsplit("=", 1) for pair in pairs)
wrong, lines = list(found["faults"]), []
for one in found["models"]:
    name, letters = one.get("model") or one["design"], one["broken"] or "–"
    if one.get("refused"):
        wrong.append(f"{name}: {one['refused']}")
    must = expected.get(name, expected.get("ext4", "")) if name.startswith("null-") else expected[name]
    lines.append(f"{case}\t{name}\t{letters}\t{must}\t{one['trees']}\t{one['points']}\t{one.get('explored', one.get('images'))}\n")
    if not name.startswith("null-") and letters != must:
        wrong.append(f"{name}: {letters}, expected {must}")
if "SCORES" in os.environ:
    open(os.environ["SCORES"], "a").writelines(lines)
if wrong:
    sys.exit(print("; ".join(wrong)) or 1)

"""Prints what models break, with the trees that were judged: row.py FOUND.json; each finding on a line of its own.

A second word is the name of a right program: with SCORES=FILE a line for each model is added there, as cells.py does, but of those
that are named after it.
"""
import json
import os
import sys

found = json.load(open(sys.argv[1]))
if "models" not in found:
    sys.exit(print("failed:", found["error"]["message"]))
cells = [f"{one.get('model') or one['design']}={one['broken'] or '–'}({one['trees']})" for one in found["models"]]
print(*cells, *found["faults"])
if "SCORES" in os.environ and len(sys.argv) > 2:
    with open(os.environ["SCORES"], "a") as scores:
        for one in found["models"]:
            name, states = one.get("model") or one["design"], one.get("explored", one.get("images"))
            if name in sys.argv[3:]:
                continue
            scores.write(f"{sys.argv[2]}\t{name}\t{one['broken'] or '–'}\t–\t{one['trees']}\t{one['points']}\t{states}\n")
for one in found["findings"]:
    models = [model for model in one["models"] if not model.startswith("null-")]
    if models:
        fix = (one["fix"] or {}).get("what")
        print(f"    {one['promise']}: {one['message'][:100]} [{' '.join(models)}] {one['cause'][:140]}; fix: {fix}")
for what in found["warnings"]:
    print("    warning:", what[:160])
for one in found["models"]:
    for what in one.get("findings", []):
        print(f"    {one['design']}: {what['promise']}: {what['message'][:100]}, {what['moment']}")

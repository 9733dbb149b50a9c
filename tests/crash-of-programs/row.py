"""Prints what models break, with the trees that were judged: row.py FOUND.json; each finding on a line of its own."""
import json
import sys

found = json.load(open(sys.argv[1]))
if "models" not in found:
    sys.exit(print("failed:", found["error"]["message"]))
cells = [f"{one.get('model') or one['design']}={one['broken'] or '–'}({one['trees']})" for one in found["models"]]
print(*cells, *found["faults"])
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

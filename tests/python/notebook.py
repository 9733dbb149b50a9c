"""Runs the code cells of a notebook in order, then checks that its frames sum to what the page and the document say.

usage: notebook.py NOTEBOOK

With nbclient and ipykernel the notebook runs as Jupyter runs it; without them, its cells run one after the other in this process.
"""

import ast
import json
import sys

CHECK = '''
document = result.document
page = result._page()[0].tables[0]
assert len(samples) == len(document["samples"]) == 36
assert int(samples["ops"].sum()) == sum(sample["ops"] for sample in document["samples"])
assert int(calls["time_ns"].sum()) == sum(call["total_ns"] for sample in document["samples"] for call in sample["operations"])
assert int(result.operations["count"].sum()) == sum(step["count"] for sample in document["samples"] for step in sample["steps"])
whole = calls.set_index(["sample", "call"])["time_ns"]
parts = activity.groupby(["sample", "call"])["time_ns"].sum()
assert (parts == whole.reindex(parts.index)).all() and int(parts.sum()) == int(whole.sum())
counted = result.histograms.query("grain == 'call'").groupby("name")["count"].sum()
# Work in the background, as cleaning a log, has no latency.
timed = sum(call["latency_ns"]["count"] for sample in document["samples"] for call in sample["operations"])
assert int(counted.sum()) == timed > 0
medians = samples.groupby(["axis.fs", "axis.threads"]).throughput_ops_per_s.median()
assert len(page.rows) == len(medians) == 6
for row in page.rows:
    of = dict(zip(page.heads, row))
    number, unit = of["throughput"].split()
    value = medians[of["file system"], int(of["threads"])] / {"op/s": 1, "kop/s": 1e3, "Mop/s": 1e6}[unit]
    assert abs(value - float(number)) <= 0.5 * 10.0 ** (-len(number.partition(".")[2])), (of, value)
assert list(medians.index.get_level_values("axis.threads").unique()) == [1, 2, 4]
assert measured.document["name"] == "mail-and-proxy"
print("frames sum to the numbers of the page and of the document")
'''


def by_hand(cells):
    """The cells in this process, the last expression of each shown as a notebook shows it."""
    names = {"__name__": "__main__"}
    for number, source in enumerate(cells):
        parsed = ast.parse(source)
        shown = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
        place = f"cell {number}"
        exec(compile(parsed, place, "exec"), names)
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), place, "eval"), names)
            getattr(value, "_repr_html_", lambda value=value: repr(value))()


def main(path):
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    try:
        import ipykernel  # noqa: F401
        import nbclient
        import nbformat
    except ImportError as missing:
        print(f"left out: {missing.name} is not installed, so the cells run without Jupyter")
        by_hand([*cells, CHECK])
    else:
        whole = nbformat.read(path, as_version=4)
        whole.cells.append(nbformat.v4.new_code_cell(CHECK))
        nbclient.NotebookClient(whole, timeout=120).execute()
        print("".join(output.get("text", "") for output in whole.cells[-1].outputs).strip())
        shown = json.dumps(whole)
        assert "<script" not in shown and 'class=\\"weirlab\\"' in shown
    print(f"ok: {len(cells)} cells of {path.rsplit('/', 1)[-1]} run")


main(sys.argv[1])

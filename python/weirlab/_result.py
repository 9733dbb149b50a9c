"""A result: its document, its tables as frames, its answer, its figures."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _command, _summary, _tables
from ._errors import Error, ExpectationFailed, Refused, RunWarning
from ._figures import Figure, read_figures
from ._tables import Frames, Histogram, Table, Tables

PathLike = Union[str, "os.PathLike[str]"]


class _Folder:
    """A temporary folder that is removed with the last object that holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="weirlab-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Result:
    """What a run measured. ``read``, ``run`` and ``bench`` make one; it keeps a copy of the result of its own."""

    def __init__(self, tables: Mapping[str, Table], folder: Optional[_Folder], origin: str) -> None:
        self._folder = folder
        self._origin = origin
        #: The tables by name, in plain Python: ``result.tables["calls"]``.
        self.tables = tables
        self._document: Any = None
        self._summaries: Optional[List[_summary.Summary]] = None
        self._figures: Optional[Dict[str, Figure]] = None
        self._frames: Optional[Frames] = None

    # ---- what was recorded ----

    @property
    def document(self) -> Any:
        """The JSON document: ``weir.result/1``, or ``weir.results/1`` where there are several results."""
        if self._document is None:
            self._document = json.loads(self._file().read_text(encoding="utf-8"))
        return self._document

    @property
    def results(self) -> List[Dict[str, Any]]:
        """The results of the document, one for each plan."""
        document = self.document
        return list(document["results"]) if document["schema"] == "weir.results/1" else [document]

    def _file(self) -> Path:
        if self._folder is None:
            told = f"{self._origin} holds tables only"
            raise Error(f"{told}: read the result.json from which `weir report --tables` made them")
        return self._folder.path / "result.json"

    # ---- frames ----

    @property
    def frames(self) -> Mapping[str, Any]:
        """Each table as a pandas frame: ``result.frames["calls"]`` is ``result.calls``."""
        if self._frames is None:
            self._frames = Frames(self.tables, self._about())
        return self._frames

    def _about(self) -> Dict[str, Any]:
        if self._folder is None:
            return {}
        first = self.results[0]
        known = {"weir_version": first["environment"].get("weir_version"), "commit": first["environment"].get("commit")}
        return {**known, "seed": first.get("seed"), "clock": first.get("clock"), "command": first.get("command")}

    @property
    def samples(self) -> Any:
        """A frame with a row for each run of a cell; one that failed has its reason in ``failed`` and no numbers."""
        return self.frames["samples"]

    @property
    def operations(self) -> Any:
        """A frame with a row for each operation of the workload in a sample."""
        return self.frames["operations"]

    @property
    def calls(self) -> Any:
        """A frame with a row for each kind of file-system call in a sample."""
        return self.frames["calls"]

    @property
    def times(self) -> Any:
        """A frame of where the time of calls went; sum within one ``split``."""
        return self.frames["times"]

    @property
    def counters(self) -> Any:
        """A frame with a row for each counter of a sample, by its finest parts."""
        return self.frames["counters"]

    @property
    def workers(self) -> Any:
        """A frame with a row for each worker of a sample."""
        return self.frames["workers"]

    @property
    def jobs(self) -> Any:
        """A frame with a row for each direction of one of fio's jobs in a sample."""
        return self.frames["jobs"]

    @property
    def series(self) -> Any:
        """A frame with a row for each stretch of the measured time of a sample."""
        return self.frames["series"]

    @property
    def histograms(self) -> Any:
        """A frame of latencies between two bounds, with their number; ``latency`` puts them together."""
        return self.frames["histograms"]

    @property
    def verdicts(self) -> Any:
        """A frame of which design is fastest at each point, with the interval, or why no winner is named."""
        return self.frames["verdicts"]

    @property
    def settings(self) -> Any:
        """A frame of the parameters of plan, machine and media, with their sources."""
        return self.frames["settings"]

    @property
    def columns(self) -> Any:
        """A frame of all columns of these tables, with type, unit and meaning."""
        return self.frames["columns"]

    def latency(self, name: Optional[str] = None, *, grain: str = "call", **where: Any) -> Histogram:
        """Latencies of all samples that match, put together: ``result.latency("write", fs="hinfs", threads=4)``.

        ``grain`` is ``call``, ``operation``, or one of fio's ``clat``, ``slat`` and ``lat``; ``name`` the call, operation or job;
        ``where`` names axes and columns.
        """
        wanted = dict(where, grain=grain)
        if name is not None:
            wanted["name"] = name
        found = _tables.pooled(self.tables["histograms"], wanted)
        if not found.buckets:
            told = ", ".join(f"{key}={value!r}" for key, value in wanted.items())
            raise Error(f"no latencies were recorded with {told}")
        return found

    # ---- what the page says ----

    @property
    def headline(self) -> str:
        """The answer of the page: who wins where and by how much, or why no winner is named."""
        return " ".join(summary.headline for summary in self._page())

    @property
    def notes(self) -> List[str]:
        """What a reader must know: runs that failed, an interrupt, a scaled-down plan."""
        return [note for summary in self._page() for note in summary.notes]

    def _page(self) -> List[_summary.Summary]:
        if self._summaries is None:
            if self._folder is None:
                self._summaries = [_of_verdicts(self._origin, self.tables)]
            else:
                text = (self._folder.path / "summary.md").read_text(encoding="utf-8")
                self._summaries = _summary.parse(text)
        return self._summaries

    def __repr__(self) -> str:
        return "\n\n".join(_summary.as_text(summary) for summary in self._page())

    def _repr_html_(self) -> str:
        return "".join(_summary.as_html(summary) for summary in self._page())

    # ---- figures and files ----

    @property
    def figures(self) -> Mapping[str, Figure]:
        """The figures by name: the numbers that the page draws, with the intervals that Weir computed."""
        if self._figures is None:
            into = self._file().parent / "figures"
            self.save_figures(into)
            self._figures = read_figures(into, self.results)
        return self._figures

    def save_figures(self, folder: PathLike) -> List[Path]:
        """Writes each chart as SVG (and as PDF where the command can), and each figure's numbers as CSV."""
        _command.done(["report", f"--figures={os.fspath(folder)}", "--", str(self._file())])
        return sorted(Path(folder).iterdir())

    def save_tables(self, folder: PathLike, *, format: str = "csv") -> List[Path]:
        """Writes the tables as ``csv`` or ``parquet``, by the command."""
        _command.done(["report", f"--tables={os.fspath(folder)}", f"--as={format}", "--", str(self._file())], needs="tables")
        return sorted(Path(folder).iterdir())

    def save(self, path: PathLike) -> Path:
        """Writes the result in the format of the name's ending: .html .json .json.gz .csv .parquet .md .txt"""
        _command.done(["report", f"--output={os.fspath(path)}", "--", str(self._file())])
        return Path(path)

    def ratio(self, axis: str, **options: Any) -> Comparison:
        """The values of an axis compared with its first one, cell by cell, by the rule and with the intervals of Weir."""
        return _compare([str(self._file())], {**options, "by": axis})

    def explain(self, **options: Any) -> str:
        """Where the time of each kind of operation went, as text: ``only={"fs": "hinfs"}``, ``by="fs=pmfs,hinfs"``."""
        return _command.done(["explain", *_command.options(options), "--", str(self._file())]).decode("utf-8", "replace")


class Comparison:
    """Cells of two results, or of two values of an axis, side by side."""

    def __init__(self, document: Any) -> None:
        #: The document of ``weir compare``: ``weir.compare/1``, or several of them.
        self.document = document

    @property
    def cells(self) -> List[Dict[str, Any]]:
        """A row for each pair of cells: ratio, its interval, the verdict."""
        several = self.document.get("results", [self.document])
        return [_cell(one, cell) for one in several for cell in one.get("cells", [])]

    @property
    def frame(self) -> Any:
        """The cells as a pandas frame, with the types of the tables of a result: an axis of numbers is one here, too."""
        return self._table().to_pandas()

    def _table(self) -> Table:
        several = self.document.get("results", [self.document])
        found = [cell for one in several for cell in one.get("cells", [])]
        quantities = [cell.get("quantities", {}) for cell in found]
        rows = self.cells
        names = list(dict.fromkeys(name for row in rows for name in row))
        values: Dict[str, List[Any]] = {name: [row.get(name) for row in rows] for name in names}
        columns = []
        for name in names:
            kind = "number" if name in ("ratio", "low", "high") else "text"
            axis = name[len("axis.") :] if name.startswith("axis.") else None
            if axis is not None and all(axis in numbers for numbers in quantities):
                kind, values[name] = "number", [numbers[axis] for numbers in quantities]
            columns.append(_tables.Column(name, kind, "", ""))
        return Table("comparison", columns, values)

    def __repr__(self) -> str:
        lines = []
        for cell in self.cells:
            place = " ".join(f"{name} {value}" for name, value in cell.items() if name.startswith("axis."))
            span = "" if cell["low"] is None else f" ({cell['low']:.3g} to {cell['high']:.3g}, {cell['interval']})"
            ratio = "none" if cell["ratio"] is None else f"{cell['ratio']:.3g}x"
            lines.append(f"{place}: {cell['new']} {ratio} {cell['baseline']}{span}: {cell['verdict']}")
        return "\n".join(lines) or "<no cell in common>"


def _cell(comparison: Mapping[str, Any], cell: Mapping[str, Any]) -> Dict[str, Any]:
    interval = cell.get("interval") or {}
    row: Dict[str, Any] = {f"axis.{name}": value for name, value in cell.get("axes", {}).items()}
    row.update(baseline=comparison.get("baseline"), new=comparison.get("new"), ratio=cell.get("ratio"))
    row.update(low=interval.get("low"), high=interval.get("high"), interval=interval.get("coverage"))
    row.update(verdict=cell.get("verdict"))
    return row


def _of_verdicts(origin: str, tables: Mapping[str, Table]) -> _summary.Summary:
    said = list(tables["verdicts"]) if "verdicts" in tables else []
    rows = [[str(row["verdict"] or ""), str(row["says"] or "")] for row in said]
    small = _summary.Small("", ["verdict", "what is known"], [False, False], rows)
    held = ", ".join(f"{name} {len(tables[name])}" for name in tables if name != "columns")
    return _summary.Summary(origin, "", "Tables of a result.", [], f"Rows: {held}.", [small] if rows else [])


# ---- making one ----


def read(path: PathLike) -> Result:
    """Reads a result.

    ``path`` is the ``result.json`` of a run (also ``.json.gz``), a bundle, the folder of a run or of ``weir report --tables``, one
    table (``.csv`` beside its ``columns.csv``, ``.parquet``), a mount of Weir, or the name of a run or baseline (``latest``).
    """
    text = os.fspath(path)
    place = Path(text)
    if place.is_dir() and any((place / f"columns.{end}").is_file() for end in ("csv", "parquet")):
        return Result(Tables(place), None, text)
    if place.suffix == ".parquet" and place.is_file():
        beside = place.parent
        described = _tables.describe(beside) if (beside / "columns.parquet").is_file() else {}
        return Result({place.stem: _tables.read_parquet(place, described.get(place.stem))}, None, text)
    if place.suffix == ".csv" and place.is_file():
        described = _tables.describe(place.parent)
        if place.stem not in described:
            raise Error(f"{place}: `columns` beside it describes no table {place.stem!r}: it is no table of Weir")
        return Result({place.stem: _tables.read_csv(place, described[place.stem])}, None, text)
    if place.exists() and not os.access(place, os.R_OK):
        raise Error(f"{place}: cannot be read: the permission is missing")
    folder = _Folder()
    return _made(folder, text)


def _made(folder: _Folder, source: str) -> Result:
    """The result that the command reads at ``source``, in a folder of its own."""
    inside = folder.path
    outputs = [f"--output={inside / name}" for name in ("result.json", "summary.md")]
    _command.done(["report", *outputs, f"--tables={inside / 'tables'}", "--", source], needs="tables")
    return Result(Tables(inside / "tables", folder), folder, source)


def run(plan: Union[PathLike, Mapping[str, Any]], *, progress: bool = True, **options: Any) -> Result:
    """Runs a plan: a file, the name of a built-in plan, or the plan itself as nested dictionaries.

    ``options`` are those of ``weir run``: ``quick=True``, ``only={"fs": "hinfs"}``, ``seed=7``, ``jobs=2``, ``robust=True``,
    ``check=True``, ``output="page.html"``. A plan with an error raises ``Refused`` with the command's words; an expectation that
    does not hold raises ``ExpectationFailed``, which has the result; runs that failed are told by a ``RunWarning`` and are in the
    frames with their reason. Ctrl-C ends the command, which keeps its cells: the same call goes on with them.
    """
    words = _command.options(options)
    if isinstance(plan, Mapping):
        from ._plan import to_toml

        with tempfile.TemporaryDirectory(prefix="weirlab-") as folder:
            path = Path(folder) / "plan.toml"
            path.write_text(to_toml(plan), encoding="utf-8")
            try:
                return _experiment(["run", *words, "--", str(path)], progress)
            except Refused as refused:
                # The file is gone; its lines are those of `to_toml`.
                raise Refused(str(refused).replace(str(path), "plan"), refused.exit_code) from None
    return _experiment(["run", *words, "--", os.fspath(plan)], progress)


def bench(
    *workloads: PathLike,
    fs: Union[str, Sequence[str]],
    medium: Union[None, str, Sequence[str]] = None,
    threads: Union[None, int, str, Sequence[int]] = None,
    repeats: Optional[int] = None,
    runtime: Optional[str] = None,
    clock: Optional[str] = None,
    machine: Optional[str] = None,
    seed: Optional[int] = None,
    variables: Optional[Mapping[str, Any]] = None,
    option: Optional[Mapping[str, Any]] = None,
    switch: Union[None, str, Sequence[str], Mapping[str, bool]] = None,
    progress: bool = True,
    **options: Any,
) -> Result:
    """Runs workloads on designs, as ``weir bench`` does: ``bench("filebench/varmail", fs=["pmfs", "nova"], threads=[1, 2])``.

    ``variables`` are those of the workloads (``-D``), ``option`` those of designs (``-O``); what is not named here is an option of
    the command with its own name (``region="1GiB"``, ``until="steady"``). Failures are those of ``run``.
    """
    given: Dict[str, Any] = dict(fs=fs, medium=medium, threads=threads, repeats=repeats, runtime=runtime, clock=clock)
    given.update(machine=machine, seed=seed, variables=variables, option=option, switch=switch, **options)
    words = _command.options(given, lists=("fs", "threads"))
    return _experiment(["bench", *words, "--", *(os.fspath(workload) for workload in workloads)], progress)


def compare(
    baseline: Union[Result, PathLike], new: Union[None, Result, PathLike] = None, **options: Any
) -> Comparison:
    """Compares two results cell by cell, or with ``by="medium"`` the values of an axis of one.

    ``options`` are those of ``weir compare``: ``metric="p99"``, ``threshold="5%"``.
    """
    sides = [str(one._file()) if isinstance(one, Result) else os.fspath(one) for one in (baseline, new) if one is not None]
    return _compare(sides, options)


def _compare(sides: Sequence[str], options: Mapping[str, Any]) -> Comparison:
    outcome, document = _command.document(["compare", *_command.options(options), "--", *sides])
    # With --fail-over, code 1 says that a cell is slower: the cells say which.
    compared = Comparison(document)
    if outcome.code not in (0, 1) or (outcome.code == 1 and not compared.cells):
        raise _command.failure(outcome)
    return compared


def _experiment(arguments: Sequence[str], progress: bool) -> Result:
    outcome, document = _command.document(arguments, progress=progress)
    folder = _Folder()
    printed = folder.path / "printed.json"
    printed.write_bytes(outcome.out)
    result = _made(folder, str(printed))
    result._document = document
    result._origin = str(arguments[0])
    if outcome.code == 1:
        raise ExpectationFailed(_command.told(outcome), result)
    if outcome.code != 0:
        warnings.warn(_command.told(outcome), RunWarning, stacklevel=3)
    return result

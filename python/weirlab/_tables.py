"""Tidy tables as ``weir report --tables`` writes them: typed columns, with and without pandas, polars and pyarrow."""

from __future__ import annotations

import csv
import html
import importlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._errors import Error, PackageMissing

#: The tables of a result, in the order in which they are documented.
NAMES = (
    "samples",
    "operations",
    "calls",
    "times",
    "counters",
    "events",
    "workers",
    "jobs",
    "series",
    "histograms",
    "verdicts",
    "settings",
    "columns",
)
#: The greatest count that a signed 64-bit column holds.
MOST_SIGNED = 2**63 - 1
#: Rows of a table that a notebook shows.
SHOWN_ROWS = 10


class Column(NamedTuple):
    """A column of a table, as the table ``columns`` describes it."""

    name: str
    #: ``text``, ``count`` (a whole number, not negative), ``number`` or ``flag``.
    type: str
    unit: str
    meaning: str


class Table:
    """A table of one grain. A cell that is empty is ``None``; counts are whole numbers of any size."""

    def __init__(self, name: str, columns: Sequence[Column], values: Mapping[str, List[Any]]) -> None:
        self.name = name
        self.columns: Tuple[Column, ...] = tuple(columns)
        self._values = dict(values)

    def __len__(self) -> int:
        return len(self._values[self.columns[0].name]) if self.columns else 0

    def __getitem__(self, column: str) -> List[Any]:
        """The values of a column."""
        try:
            return self._values[column]
        except KeyError:
            known = ", ".join(one.name for one in self.columns)
            raise KeyError(f"the table {self.name} has no column {column!r}; it has: {known}") from None

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """The rows."""
        names = [column.name for column in self.columns]
        for values in zip(*(self._values[name] for name in names)):
            yield dict(zip(names, values))

    def __repr__(self) -> str:
        return f"<table {self.name}: {len(self)} rows, {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(column.name)}</th>" for column in self.columns)
        rows: List[str] = []
        for number, row in enumerate(self):
            if number == SHOWN_ROWS:
                break
            cells = ("" if value is None else html.escape(str(value)) for value in row.values())
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        more = f"<p>{len(self)} rows in all</p>" if len(self) > SHOWN_ROWS else ""
        title = f"<b>{html.escape(self.name)}</b>"
        return f"<div>{title}<table><tr>{heads}</tr>{''.join(rows)}</table>{more}</div>"

    def kind(self, column: Column) -> str:
        """How a data frame holds the column: ``text``, ``signed``, ``unsigned``, ``number`` or ``flag``.

        An axis whose values are all whole is of whole numbers. Counts are signed, so that differences of them are right; a seed
        is not, and neither is a column with a greater count than a signed one holds.
        """
        values = self._values[column.name]
        if column.type == "count":
            fits = column.name != "seed" and all(value is None or value <= MOST_SIGNED for value in values)
            return "signed" if fits else "unsigned"
        if column.type == "number" and column.name.startswith("axis."):
            there = [value for value in values if value is not None]
            if there and all(float(value).is_integer() and abs(value) < 2**53 for value in there):
                return "signed"
        return column.type

    def _as_kind(self, column: Column) -> Tuple[str, List[Any]]:
        kind, values = self.kind(column), self._values[column.name]
        if kind == "signed" and column.type == "number":
            return kind, [None if value is None else int(value) for value in values]
        return kind, values

    def to_pandas(self) -> Any:
        """The table as a pandas frame: ``Int64``, ``UInt64``, ``float64``, ``boolean`` and ``string``; units are in ``attrs``."""
        pandas = need("pandas", "pandas")
        kinds = {"number": "float64", "flag": "boolean", "text": "string"}
        made = {}
        for column in self.columns:
            kind, values = self._as_kind(column)
            array = pandas.array(values, dtype=kinds[kind]) if kind in kinds else _whole(pandas, kind, values)
            made[column.name] = pandas.Series(array, name=column.name)
        frame = pandas.DataFrame(made, columns=[column.name for column in self.columns])
        frame.attrs["units"] = {column.name: column.unit for column in self.columns if column.unit}
        return frame

    def to_polars(self) -> Any:
        """The table as a polars frame."""
        polars = need("polars", "polars")
        kinds = {
            "signed": polars.Int64,
            "unsigned": polars.UInt64,
            "number": polars.Float64,
            "flag": polars.Boolean,
            "text": polars.String if hasattr(polars, "String") else polars.Utf8,
        }
        made = []
        for column in self.columns:
            kind, values = self._as_kind(column)
            made.append(polars.Series(column.name, values, dtype=kinds[kind], strict=False))
        return polars.DataFrame(made)

    def to_arrow(self) -> Any:
        """The table as an Arrow table; a column's unit and meaning are metadata of its field."""
        arrow = need("pyarrow", "parquet")
        kinds = {
            "signed": arrow.int64(),
            "unsigned": arrow.uint64(),
            "number": arrow.float64(),
            "flag": arrow.bool_(),
            "text": arrow.string(),
        }
        arrays, fields = [], []
        for column in self.columns:
            kind, values = self._as_kind(column)
            arrays.append(arrow.array(values, type=kinds[kind]))
            about = {"unit": column.unit, "meaning": column.meaning}
            fields.append(arrow.field(column.name, kinds[kind], metadata=about))
        return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))


def _whole(pandas: Any, kind: str, values: Sequence[Optional[int]]) -> Any:
    """Whole numbers as pandas keeps them, with a mask; older versions would take large ones through floating point."""
    numpy = importlib.import_module("numpy")
    numbers = numpy.array([value or 0 for value in values], dtype="int64" if kind == "signed" else "uint64")
    return pandas.arrays.IntegerArray(numbers, numpy.array([value is None for value in values], dtype=bool))


def need(module: str, extra: str) -> Any:
    """An optional package; raises with the advice where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        without = "`.svgs`, Weir's own drawings" if extra == "figures" else "`.tables`, which need no package"
        advice = f"install it (`pip install 'weir-lab[{extra}]'`), or use {without}"
        raise PackageMissing(f"{module} is not installed: {advice}") from error


# ---- reading ----

_READ: Dict[str, Callable[[str], Any]] = {
    "text": str,
    "count": int,
    "number": float,
    "flag": lambda text: {"true": True, "false": False}[text],
}


def read_csv(path: Path, columns: Mapping[str, Column]) -> Table:
    """Reads a table; ``columns`` has the types of its columns."""
    with _opened(path) as stream:
        rows = csv.reader(stream)
        heads = next(rows, None)
        if not heads:
            raise Error(f"{path}: is empty: a table begins with the names of its columns")
        unknown = [name for name in heads if name not in columns]
        if unknown:
            raise Error(f"{path}: `columns` beside it describes no column {unknown[0]!r}: it is no table of Weir")
        readers = [_READ[columns[name].type] for name in heads]
        values: List[List[Any]] = [[] for _ in heads]
        for row in rows:
            if len(row) != len(heads):
                told = f"{len(row)} of {len(heads)} cells"
                raise Error(f"{path}:{rows.line_num}: the row has {told}: the file was edited or cut short")
            for name, read, cell, into in zip(heads, readers, row, values):
                try:
                    into.append(None if cell == "" else read(cell))
                except (ValueError, KeyError):
                    wanted = columns[name].type
                    raise Error(f"{path}:{rows.line_num}: {cell[:40]!r} in {name!r} is no {wanted}") from None
    return Table(path.stem, [columns[name] for name in heads], dict(zip(heads, values)))


def _opened(path: Path) -> Any:
    # Read as a whole: an error of the encoding then names the file, not a line of this module.
    import io

    try:
        return io.StringIO(path.read_text(encoding="utf-8"), newline="")
    except UnicodeDecodeError as error:
        raise Error(f"{path}: is no text at byte {error.start}: it is no table of Weir") from None
    except OSError as error:
        raise Error(f"{path}: cannot be read: {error.strerror}") from None


def read_parquet(path: Path, columns: Optional[Mapping[str, Column]] = None) -> Table:
    """Reads a table from Parquet, which has types of its own."""
    need("pyarrow", "parquet")
    parquet = need("pyarrow.parquet", "parquet")
    try:
        read = parquet.read_table(str(path))
    except Exception as error:  # pyarrow raises classes of its own, and OSError
        raise Error(f"{path}: is no whole Parquet file: {str(error).splitlines()[0]}") from error
    described = columns or {}
    made, values = [], {}
    for field in read.schema:
        kind = _parquet_type(path, field)
        made.append(described.get(field.name) or Column(field.name, kind, "", ""))
        values[field.name] = read.column(field.name).to_pylist()
    return Table(path.stem, made, values)


def _parquet_type(path: Path, field: Any) -> str:
    kinds = {"string": "text", "large_string": "text", "uint64": "count", "double": "number", "bool": "flag"}
    try:
        return kinds[str(field.type)]
    except KeyError:
        raise Error(f"{path}: column {field.name!r} is of type {field.type}: it is no table of Weir") from None


#: The columns of the table `columns`, without which no other can be read.
_REFERENCE = {name: Column(name, "text", "", "") for name in ("table", "column", "type", "unit", "meaning")}


def describe(folder: Path) -> Dict[str, Dict[str, Column]]:
    """For each table that the table ``columns`` of a folder describes, its columns by name."""
    as_csv, as_parquet = folder / "columns.csv", folder / "columns.parquet"
    if as_csv.is_file():
        reference = read_csv(as_csv, _REFERENCE)
    elif as_parquet.is_file():
        reference = read_parquet(as_parquet)
    else:
        advice = "give a folder that `weir report --tables` wrote, with its columns.csv"
        raise Error(f"{folder}: has no table `columns`, which says what the others hold: {advice}")
    missing = [name for name in _REFERENCE if name not in (column.name for column in reference.columns)]
    if missing:
        raise Error(f"{folder}: its table `columns` has no column {missing[0]!r}: it is no table of Weir")
    found: Dict[str, Dict[str, Column]] = {}
    for row in reference:
        text = {name: row[name] or "" for name in _REFERENCE}
        if text["type"] not in _READ:
            raise Error(f"{folder}: its table `columns` has the type {text['type']!r}: this module is older than the file")
        column = Column(text["column"], text["type"], text["unit"], text["meaning"])
        found.setdefault(text["table"], {})[column.name] = column
    return found


class Tables(Mapping[str, Table]):
    """The tables of a folder by name, each read when it is first used."""

    def __init__(self, folder: Path, owner: object = None) -> None:
        self._folder = folder
        # A temporary folder lives as long as its tables: they may outlive their result.
        self._owner = owner
        self._described = describe(folder)
        self._read: Dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self._described:
            raise KeyError(f"there is no table {name!r}; there are: {', '.join(self)}")
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def _load(self, name: str) -> Table:
        columns = self._described[name]
        as_csv, as_parquet = self._folder / f"{name}.csv", self._folder / f"{name}.parquet"
        if as_csv.is_file():
            return read_csv(as_csv, columns)
        if as_parquet.is_file():
            return read_parquet(as_parquet, columns)
        raise Error(f"{self._folder}: the table {name} is missing, which `columns` describes")

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def __repr__(self) -> str:
        return f"<tables {', '.join(self)}>"


class Frames(Mapping[str, Any]):
    """The tables as pandas frames."""

    def __init__(self, tables: Mapping[str, Table], about: Mapping[str, Any]) -> None:
        self._tables, self._about = tables, dict(about)
        self._made: Dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            frame = self._tables[name].to_pandas()
            frame.attrs.update(self._about)
            self._made[name] = frame
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return f"<frames {', '.join(self)}>"


class Histogram:
    """Latencies of many samples put together, as the histograms of Weir hold them."""

    def __init__(self, buckets: Mapping[Tuple[int, int], int]) -> None:
        #: (least, greatest latency in ns, how many), by latency.
        self.buckets: List[Tuple[int, int, int]] = sorted((low, high, n) for (low, high), n in buckets.items())

    @property
    def count(self) -> int:
        """How many latencies there are."""
        return sum(n for _, _, n in self.buckets)

    def quantile(self, share: float) -> Optional[int]:
        """The latency in ns that this share (0 to 1) of all is not above; None where there are none."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a quantile is between 0 and 1, not {share}")
        total, below = self.count, 0
        wanted = max(1, _ceil(share, total))
        for _, high, n in self.buckets:
            below += n
            if below >= wanted:
                return high
        return None

    def __repr__(self) -> str:
        told = ", ".join(f"p{share * 100:g} {self.quantile(share)} ns" for share in (0.5, 0.99, 0.999))
        return f"<histogram of {self.count} latencies: {told}>"


def _ceil(share: float, total: int) -> int:
    """The least whole number not below `share * total`; 0.99 of 100 is 99, whatever binary makes of 0.99."""
    exact = share * total
    nearest = round(exact)
    if abs(exact - nearest) < 1e-9 * max(1.0, exact):
        return nearest
    return int(exact) + 1


def pooled(histograms: Table, wanted: Mapping[str, Any]) -> Histogram:
    """The histograms of the rows that have these values, put together."""
    matched: Dict[Tuple[int, int], int] = {}
    names = {column.name for column in histograms.columns}
    where = {}
    for name, value in wanted.items():
        column = f"axis.{name}" if f"axis.{name}" in names else name
        if column not in names:
            axes = ", ".join(sorted(one[5:] for one in names if one.startswith("axis.")))
            raise Error(f"there is no axis and no column {name!r}; axes are: {axes}")
        where[column] = value
    for row in histograms:
        if all(row[name] == value for name, value in where.items()):
            key = (row["low_ns"], row["high_ns"])
            matched[key] = matched.get(key, 0) + row["count"]
    return Histogram(matched)

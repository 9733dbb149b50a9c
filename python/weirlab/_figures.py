"""Figures: the numbers that a page draws, as ``weir report --figures`` writes them, drawn in the style of papers by matplotlib."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._errors import Error
from ._tables import need

#: Settings of matplotlib for a column of a paper: small sans-serif words, thin lines, fonts embedded as TrueType.
PAPER: Dict[str, Any] = {
    "figure.dpi": 150,
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "weirlab",
}
#: The colours of Okabe and Ito, which readers with any colour vision tell apart; black comes last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933", "#000000")
MARKERS = "osD^vPX*"
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "---", "oo")
#: The width of a column of a paper, in inches.
COLUMN_IN = 3.35
#: Units by the name of what is drawn; another has none.
UNITS = {
    "throughput": "operations/s",
    "bytes read and written": "bytes/s",
    "mean latency": "ns",
    "mean time of one operation": "ns",
}
_POINT_HEADS = ["panel", "x", "series", "value", "low", "high", "interval", "repeats", "metric"]


class Point(NamedTuple):
    """A point of a figure. ``low`` and ``high`` are the ends of the interval that Weir computed, where there is one."""

    panel: str
    x: str
    series: str
    value: Optional[float]
    low: Optional[float]
    high: Optional[float]
    #: ``95 %``, ``range`` (of few repeats), ``exact``, or empty.
    interval: str
    repeats: int
    metric: str


class Figure:
    """A figure: its points, the SVG drawings of the page, and a drawing in matplotlib."""

    def __init__(self, name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], svgs: Mapping[str, str], kind: str,
                 x_label: str = "") -> None:
        self.name = name
        self.heads = list(heads)
        #: The rows of the figure's CSV, as text.
        self.rows = [list(row) for row in rows]
        #: Weir's own drawings by the name of their file.
        self.svgs = dict(svgs)
        #: ``bars``, ``lines``, ``breakdown`` (stacked bars), ``curves``, or ``other``, which only the SVG draws.
        self.kind = kind
        #: The axis of the plan over which it is drawn, where that can be told.
        self.x_label = x_label

    @property
    def points(self) -> List[Point]:
        """The points of a figure of bars, lines or breakdowns."""
        if self.heads != _POINT_HEADS:
            raise Error(f"the figure {self.name} has no points with intervals: see .heads and .rows")
        return [_point(self.name, row) for row in self.rows]

    def __repr__(self) -> str:
        return f"<figure {self.name}: {self.kind}, {len(self.rows)} points, {len(self.svgs)} drawings>"

    def _repr_html_(self) -> str:
        # Weir draws without scripts and escapes names. A page that holds several drawings must not mix their identifiers.
        return "".join(f"<div>{_apart(svg, _plain(name))}</div>" for name, svg in self.svgs.items())

    def draw(self, axes: Any = None) -> Any:
        """Draws with matplotlib in paper style, one panel above the other, and returns its Figure.

        With ``axes`` the only panel is drawn there.
        Error bars are the intervals of the tables; a point that was not measured draws nothing.
        """
        pyplot = need("matplotlib.pyplot", "figures")
        panels = self._panels()
        with pyplot.rc_context(PAPER):
            if axes is not None:
                if len(panels) != 1:
                    raise Error(f"the figure {self.name} has {len(panels)} panels: draw it without axes")
                drawn, grid = axes.figure, [axes]
            else:
                size = (COLUMN_IN, 2.3 * len(panels))
                drawn, made = pyplot.subplots(len(panels), 1, figsize=size, squeeze=False, layout="constrained")
                grid = [row[0] for row in made]
            for (title, rows), place in zip(panels.items(), grid):
                self._draw_panel(place, title, rows)
            if axes is None:
                # The notebook shows what is returned; pyplot must not show it, too.
                pyplot.close(drawn)
        return drawn

    def _panels(self) -> Dict[str, List[List[str]]]:
        if self.kind == "other" or not self.rows:
            raise Error(f"the figure {self.name} is drawn by Weir only: see .svgs")
        panels: Dict[str, List[List[str]]] = {}
        for row in self.rows:
            panels.setdefault(row[0], []).append(row)
        return panels

    def _draw_panel(self, axes: Any, title: str, rows: List[List[str]]) -> None:
        axes.set_title(title)
        # A series looks the same in every panel.
        series = _distinct([row[1 if self.kind == "curves" else 2] for row in self.rows])
        if self.kind == "curves":
            _draw_curves(axes, self.heads, rows, series)
        else:
            points = [_point(self.name, row) for row in rows]
            axes.set_ylabel(_label(points[0].metric))
            draw = {"breakdown": _draw_stacks, "lines": _draw_lines, "bars": _draw_bars}[self.kind]
            draw(axes, points, series)
            axes.set_xlabel(self.x_label)
            axes.set_ylim(bottom=0)
        # Below the panel, where it lies on no data.
        axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.24))


def _label(metric: str) -> str:
    unit = UNITS.get(metric)
    return f"{metric} ({unit})" if unit else metric


def _distinct(values: Sequence[str]) -> List[str]:
    return list(dict.fromkeys(values))


def _ends(points: Sequence[Point]) -> Tuple[List[float], List[float]]:
    """How far the interval of each point reaches below and above its value; 0 where there is none."""
    below, above = [], []
    for point in points:
        value = point.value or 0.0
        below.append(max(0.0, value - point.low) if point.low is not None else 0.0)
        above.append(max(0.0, point.high - value) if point.high is not None else 0.0)
    return below, above


def _draw_bars(axes: Any, points: Sequence[Point], series: Sequence[str]) -> None:
    xs = _distinct([point.x for point in points])
    width = 0.8 / max(1, len(series))
    for number, name in enumerate(series):
        own = [point for point in points if point.series == name and point.value is not None]
        if not own:
            continue
        places = [xs.index(point.x) + (number - (len(series) - 1) / 2) * width for point in own]
        look = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
        heights = [point.value for point in own]
        axes.bar(places, heights, width * 0.92, yerr=_ends(own), label=name, edgecolor="white", linewidth=0.3,
                 error_kw={"elinewidth": 0.8, "ecolor": "black"}, **look)
    axes.set_xticks(range(len(xs)), xs)


def _draw_lines(axes: Any, points: Sequence[Point], series: Sequence[str]) -> None:
    xs = _distinct([point.x for point in points])
    numbers = [_number(x) for x in xs]
    spread = max(numbers) / min(number for number in numbers if number > 0)
    if spread >= 16 and min(numbers) > 0:
        axes.set_xscale("log", base=2)
    for number, name in enumerate(series):
        own = sorted((p for p in points if p.series == name and p.value is not None), key=lambda p: _number(p.x))
        if not own:
            continue
        axes.errorbar([_number(point.x) for point in own], [point.value for point in own], yerr=_ends(own), label=name,
                      color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)])
    axes.set_xticks(numbers, xs)
    axes.minorticks_off()


def _draw_stacks(axes: Any, points: Sequence[Point], series: Sequence[str]) -> None:
    """A bar for each design; the series are the activities, which lie one upon the other."""
    designs = _distinct([point.x for point in points])
    below = [0.0] * len(designs)
    for number, activity in enumerate(series):
        by_design = {point.x: point.value or 0.0 for point in points if point.series == activity}
        if not by_design:
            continue
        heights = [by_design.get(name, 0.0) for name in designs]
        axes.bar(range(len(designs)), heights, 0.6, bottom=below, label=activity, color=COLOURS[number % len(COLOURS)],
                 hatch=HATCHES[number % len(HATCHES)], edgecolor="white", linewidth=0.3)
        below = [low + height for low, height in zip(below, heights)]
    axes.set_xticks(range(len(designs)), designs)


def _draw_curves(axes: Any, heads: Sequence[str], rows: Sequence[Sequence[str]], series: Sequence[str]) -> None:
    for number, name in enumerate(series):
        own = [(float(row[2]), float(row[3])) for row in rows if row[1] == name]
        if own:
            axes.plot(*zip(*own), label=name, color=COLOURS[number % len(COLOURS)])
    axes.set_xlabel(heads[2])
    axes.set_ylabel(heads[3])
    least = min((float(row[2]) for row in rows if float(row[2]) > 0), default=1.0)
    if "latency" in heads[2] and max(float(row[2]) for row in rows) >= 10 * least:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(need("matplotlib.ticker", "figures").NullFormatter())


# ---- reading ----


def read_figures(folder: Path, results: Sequence[Mapping[str, Any]]) -> Dict[str, Figure]:
    """The figures of a folder that ``weir report --figures`` wrote, without the name of the result where there is one only."""
    axes = _axes(results)
    tables = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    drawings = {path.stem: path for path in sorted(folder.glob("*.svg"))}
    prefix = f"{_plain(str(results[0]['name']))}-" if len(results) == 1 else ""
    found = {}
    for stem, path in tables.items():
        with open(path, encoding="utf-8", newline="") as stream:
            heads, *rows = list(csv.reader(stream))
        own = {name: svg.read_text(encoding="utf-8") for name, svg in drawings.items() if _owner(name, tables) == stem}
        name = stem[len(prefix) :] if prefix and stem.startswith(prefix) else stem
        found[name] = Figure(name, heads, rows, own, _kind(heads, rows), _axis_of(heads, rows, axes))
    return found


def _axes(results: Sequence[Mapping[str, Any]]) -> Dict[str, List[str]]:
    """The values of each axis of the results."""
    axes: Dict[str, List[str]] = {}
    for result in results:
        for sample in result.get("samples", []):
            for name, value in sample.get("axes", {}).items():
                values = axes.setdefault(name, [])
                if value not in values:
                    values.append(value)
    return axes


def _axis_of(heads: Sequence[str], rows: Sequence[Sequence[str]], axes: Mapping[str, List[str]]) -> str:
    """The one axis that has the values over which a figure is drawn."""
    if list(heads) != _POINT_HEADS:
        return ""
    xs = {row[1].replace(" ", "") for row in rows}
    names = [name for name, values in axes.items() if xs == {value.replace(" ", "") for value in values}]
    return names[0] if len(names) == 1 else ""


def _plain(text: str) -> str:
    """The name of a result as it stands in names of files."""
    return "-".join(part for part in re.split(r"[^A-Za-z0-9.]+", text) if part)


def _owner(drawing: str, tables: Mapping[str, Path]) -> Optional[str]:
    owners = [stem for stem in tables if drawing == stem or drawing.startswith(stem + "-")]
    return max(owners, key=len) if owners else None


def _kind(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if list(heads) != _POINT_HEADS:
        curves = len(heads) == 4 and list(heads[:2]) == ["chart", "series"] and heads[2].endswith("(ns)")
        return "curves" if curves else "other"
    if rows and rows[0][8] == "mean time of one operation":
        return "breakdown"
    xs = _distinct([row[1] for row in rows])
    numeric = len(xs) > 1 and all(_is_number(x) for x in xs)
    return "lines" if numeric else "bars"


def _point(figure: str, row: Sequence[str]) -> Point:
    try:
        value, low, high = (float(text) if text else None for text in row[3:6])
        return Point(row[0], row[1], row[2], value, low, high, row[6], int(row[7] or 0), row[8])
    except (ValueError, IndexError) as error:
        raise Error(f"the figure {figure} has the row {list(row)!r}, which is no point of it") from error


_FACTORS = {"": 1.0, "B": 1.0, "ns": 1.0, "%": 1.0, "x": 1.0, "k": 2.0**10, "K": 2.0**10, "KiB": 2.0**10, "M": 2.0**20,
            "MiB": 2.0**20, "G": 2.0**30, "GiB": 2.0**30, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_QUANTITY = re.compile(r"([0-9]*\.?[0-9]+) ?([A-Za-zµ%]*)")


def _is_number(text: str) -> bool:
    match = _QUANTITY.fullmatch(text)
    return match is not None and match[2] in _FACTORS


def _number(text: str) -> float:
    """The place of a value on an axis: `4 KiB` is 4096."""
    match = _QUANTITY.fullmatch(text)
    assert match is not None, text
    return float(match[1]) * _FACTORS[match[2]]


def _apart(svg: str, prefix: str) -> str:
    """The drawing without its XML head, its identifiers made its own: those of a page are one space."""
    inner = svg[max(0, svg.find("<svg")) :]
    inner = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', inner)
    return re.sub(r"url\(#([^)]*)\)", rf"url(#{prefix}-\1)", inner)

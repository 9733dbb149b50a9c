"""The answer, the notes and the small tables of a result, as text and as HTML.

They are read from the Markdown that ``weir report`` writes.
"""

from __future__ import annotations

import html
import re
from typing import List, NamedTuple, Tuple

#: Rows of a table that a notebook or a terminal shows.
SHOWN_ROWS = 60


class Small(NamedTuple):
    """A table as the page has it: words, not numbers."""

    title: str
    heads: List[str]
    #: Whether each column stands on the right.
    right: List[bool]
    rows: List[List[str]]


class Summary(NamedTuple):
    """What a page says of one result."""

    name: str
    #: The question of the plan, which may be empty.
    why: str
    #: The answer: who wins where, or why no winner is named.
    headline: str
    #: What a reader must know: runs that failed, an interrupt, a scaled-down plan.
    notes: List[str]
    #: What is the same everywhere.
    fixed: str
    tables: List[Small]


def parse(text: str) -> List[Summary]:
    """The results of a Markdown report, in its order."""
    parts = re.split(r"(?m)^# ", text)
    return [_section(part) for part in parts[1:]]


def _section(text: str) -> Summary:
    name, _, rest = text.partition("\n")
    blocks = [block.strip("\n") for block in rest.split("\n\n") if block.strip()]
    why = ""
    if blocks and re.fullmatch(r"\*[^*].*\*", blocks[0], re.DOTALL):
        why = blocks.pop(0)[1:-1]
    headline = blocks.pop(0) if blocks else ""
    notes, fixed, tables, title = [], "", [], ""
    for block in blocks:
        if block.startswith("> "):
            notes.append(block[2:])
        elif block.startswith("|"):
            tables.append(_table(title, block))
        elif re.fullmatch(r"\*\*.*\*\*", block, re.DOTALL):
            title = _plain(block[2:-2])
        elif not tables and not title:
            fixed = block
    return Summary(name.strip(), why, headline, notes, fixed, tables)


def _table(title: str, block: str) -> Small:
    lines = block.splitlines()
    rules = _cells(lines[1]) if len(lines) > 1 else []
    return Small(title, _cells(lines[0]), [rule.endswith(":") for rule in rules], [_cells(line) for line in lines[2:]])


def _cells(line: str) -> List[str]:
    inner = line.strip()[1:]
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", inner)]


def _plain(text: str) -> str:
    return text.replace("\\|", "|")


def as_text(summary: Summary) -> str:
    """The answer and its tables, for a terminal."""
    lines = [summary.name, summary.headline, *(f"note: {note}" for note in summary.notes)]
    for table in summary.tables:
        lines += ["", table.title, *_lines(table)]
    return "\n".join(lines)


def _lines(table: Small) -> List[str]:
    shown = table.rows[:SHOWN_ROWS]
    widths = [max(len(row[at]) for row in [table.heads, *shown] if at < len(row)) for at in range(len(table.heads))]
    lines = []
    for row in [table.heads, *shown]:
        right = table.right + [False] * len(row)
        cells = (cell.rjust(width) if on else cell.ljust(width) for cell, width, on in zip(row, widths, right))
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines + _left_out(table)


def _left_out(table: Small) -> List[str]:
    more = len(table.rows) - SHOWN_ROWS
    return [f"  … {more} more rows: .samples has all runs"] if more > 0 else []


def as_html(summary: Summary) -> str:
    """The same for a notebook. Every word of the result is escaped; there is no script and no address."""
    parts = [f"<h4>{html.escape(summary.name)}</h4>"]
    if summary.why:
        parts.append(f"<p><i>{html.escape(summary.why)}</i></p>")
    parts.append(f"<p><b>{html.escape(summary.headline)}</b></p>")
    parts += [f"<p>Note: {html.escape(note)}</p>" for note in summary.notes]
    if summary.fixed:
        parts.append(f"<p>{html.escape(summary.fixed)}</p>")
    parts += [_html_table(table) for table in summary.tables]
    return '<div class="weirlab">' + "".join(parts) + "</div>"


def _html_table(table: Small) -> str:
    right = table.right + [False] * len(table.heads)
    style = ['style="text-align:right"' if on else 'style="text-align:left"' for on in right]
    rows = [_html_row("th", table.heads, style)]
    rows += [_html_row("td", row, style) for row in table.rows[:SHOWN_ROWS]]
    more = "".join(f"<p>{html.escape(line.strip())}</p>" for line in _left_out(table))
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    return f"<table>{caption}{''.join(rows)}</table>{more}"


def _html_row(tag: str, cells: List[str], style: List[str]) -> str:
    made: List[Tuple[str, str]] = list(zip(cells, style + [""] * len(cells)))
    return "<tr>" + "".join(f"<{tag} {how}>{html.escape(cell)}</{tag}>" for cell, how in made) + "</tr>"

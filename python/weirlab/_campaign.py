"""The state of a campaign, as the command tells it."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from . import _command
from ._errors import Error

#: Counts that the command's document has.
COUNTS = ("shards", "done", "failed", "missing", "running")


class Campaign:
    """A campaign in a folder: how many of its shards are done, failed, missing and running.

    Nothing is kept: ``refresh`` asks the command anew.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._status: Dict[str, Any] = {}
        self.refresh()

    def refresh(self) -> Campaign:
        """Asks the command again."""
        outcome, document = _command.document(["campaign", "status", "--", self.path], needs="campaigns")
        if not isinstance(document, dict):
            raise _command.failure(outcome)
        wrong = [name for name in COUNTS if _count(document.get(name)) is None]
        if wrong:
            raise Error(f"{self.path}: `weir campaign status --json` told no number of {wrong[0]}: command and module differ")
        self._status = document
        return self

    @property
    def status(self) -> Dict[str, Any]:
        """The whole document of ``weir campaign status --json``."""
        return self._status

    def _number(self, name: str) -> int:
        return _count(self._status[name]) or 0

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._number("shards")

    @property
    def done(self) -> int:
        """How many are done."""
        return self._number("done")

    @property
    def failed(self) -> int:
        """How many have failed."""
        return self._number("failed")

    @property
    def missing(self) -> int:
        """How many nothing has run yet."""
        return self._number("missing")

    @property
    def running(self) -> int:
        """How many run now, as far as the engine tells."""
        return self._number("running")

    @property
    def is_done(self) -> bool:
        """Whether every shard is done."""
        return self.done == self.shards

    def __repr__(self) -> str:
        told = ", ".join(f"{self._number(name)} {name}" for name in COUNTS[1:])
        return f"<campaign {self.path}: {self.shards} shards, {told}>"

    def _repr_html_(self) -> str:
        import html

        cells = "".join(f"<td>{self._number(name)}</td>" for name in COUNTS)
        heads = "".join(f"<th>{name}</th>" for name in COUNTS)
        share = f'<progress max="{max(self.shards, 1)}" value="{self.done}"></progress>'
        return f"<div><b>{html.escape(self.path)}</b> {share}<table><tr>{heads}</tr><tr>{cells}</tr></table></div>"


def _count(value: object) -> Optional[int]:
    """A count, or the length of a list of what is counted."""
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def campaign(path: Any) -> Campaign:
    """The state of the campaign in a folder, for a notebook."""
    return Campaign(os.fspath(path))

"""Experiments of Weir, a laboratory of file systems for byte-addressable storage.

``run`` and ``bench`` measure, ``read`` reads what was measured; all three return a ``Result`` with typed frames, the answer of the
page and its figures. The command ``weir`` does all arithmetic: no interval and no verdict is computed here.
"""

from ._campaign import Campaign, campaign
from ._command import find, version
from ._errors import (
    CommandMissing,
    CommandTooOld,
    Error,
    ExpectationFailed,
    PackageMissing,
    Refused,
    RunWarning,
)
from ._figures import PAPER, Figure
from ._result import Comparison, Result, bench, compare, read, run
from ._tables import Column, Histogram, Table
from ._version import __version__

__all__ = [
    "PAPER",
    "Campaign",
    "Column",
    "CommandMissing",
    "CommandTooOld",
    "Comparison",
    "Error",
    "ExpectationFailed",
    "Figure",
    "Histogram",
    "PackageMissing",
    "Refused",
    "Result",
    "RunWarning",
    "Table",
    "__version__",
    "bench",
    "campaign",
    "compare",
    "find",
    "read",
    "run",
    "version",
]

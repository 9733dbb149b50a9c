"""What can go wrong, as exceptions with the words of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._result import Result


class Error(Exception):
    """Something failed; the text says what, where, and what to do."""

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        #: The command's exit code: 2 usage or a wrong plan, 3 this host, 4 the run, 5 corruption; None where no command ran.
        self.exit_code = exit_code


class CommandMissing(Error):
    """There is no command ``weir``."""


class CommandTooOld(Error):
    """The command does not know what this module asks of it."""


class Refused(Error):
    """The command refused what it was given: a plan with an error, an unknown name, a file that is no result (exit code 2)."""


class PackageMissing(Error, ImportError):
    """An optional package is not installed."""


class ExpectationFailed(Error):
    """The plan ran, and something that it expects does not hold (exit code 1)."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message, 1)
        #: The result, whole.
        self.result = result


class RunWarning(UserWarning):
    """Runs of a result failed or were cut short; the frames hold them with the reason."""

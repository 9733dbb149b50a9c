"""``python -m weirlab``: runs the command with these arguments, in the place of this process."""

from __future__ import annotations

import os
import sys

from . import _command
from ._errors import Error


def main() -> int:
    """Becomes the command; returns only where there is none."""
    try:
        path = str(_command.find())
        os.execv(path, [path, *sys.argv[1:]])
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: cannot start {path}: {error.strerror}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())

"""The command ``weir``: where it is, how it is called, and what its failures become."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._errors import CommandMissing, CommandTooOld, Error, Refused

#: The least version whose tables and documents this module reads.
LEAST: Tuple[int, int] = (0, 1)
#: How long a command that is told to stop may take to keep what it has, in seconds.
PATIENCE_S = 30.0

#: What makes programs write colours to what is no terminal; notebooks set it.
COLOUR = ("CLICOLOR_FORCE", "FORCE_COLOR", "CLICOLOR")

#: What clap says of an argument or a command that it does not know.
UNKNOWN = re.compile(r"(unexpected argument|unrecognized subcommand|invalid value) '([^']*)'")

#: Paths of commands that have answered with a version, and that version.
_checked: Dict[Tuple[str, int], str] = {}


class Outcome(NamedTuple):
    """What a command left."""

    code: int
    out: bytes
    err: str


def find() -> Path:
    """The path of the command: in the wheel, then where WEIR says, then on the path."""
    inside = Path(__file__).parent / "_bin" / "weir"
    if inside.is_file():
        return inside
    named = os.environ.get("WEIR")
    if named:
        path = Path(named)
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()
        raise CommandMissing(f"WEIR is {named!r}, which is no program: set it to the path of the command weir")
    found = shutil.which("weir")
    if found:
        return Path(found)
    raise CommandMissing(
        "there is no command weir: install a wheel that has it, put it on the PATH, or set WEIR to its path"
    )


def version() -> str:
    """The version of the command, such as ``0.1.0``. Raises where there is none, or one that is too old for this module."""
    path = find()
    key = (str(path), path.stat().st_mtime_ns)
    if key not in _checked:
        _checked[key] = _ask_version(path)
    return _checked[key]


def _ask_version(path: Path) -> str:
    try:
        told = subprocess.run([str(path), "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except OSError as error:
        raise CommandMissing(f"cannot start {path}: {error}") from error
    except subprocess.TimeoutExpired:
        raise CommandMissing(f"{path} does not answer `--version` within a minute: it is not the command weir") from None
    text = told.stdout.decode("utf-8", "replace").strip()
    match = re.fullmatch(r"weir (\d+)\.(\d+)\.(\S+)", text)
    if told.returncode != 0 or match is None:
        raise CommandMissing(f"{path} is not the command weir: `--version` printed {text[:80]!r}")
    if (int(match[1]), int(match[2])) < LEAST:
        least = ".".join(map(str, LEAST))
        raise CommandTooOld(f"{path} is Weir {text[5:]}: this module needs {least} or newer")
    return text[5:]


def call(arguments: Sequence[str], *, progress: bool = False) -> Outcome:
    """Runs the command to its end. Ctrl-C is passed on: the command keeps what it has, then KeyboardInterrupt goes on.

    What the command prints goes to a file, so that a large document blocks nothing. Progress is copied to ``sys.stderr``.
    """
    version()
    quiet: List[str] = [] if progress else ["--quiet"]
    with tempfile.TemporaryFile() as out:
        # A session of its own: Ctrl-C on a terminal must not reach the command twice.
        child = subprocess.Popen(
            [str(find()), *quiet, *arguments],
            env={**{name: value for name, value in os.environ.items() if name not in COLOUR}, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        told: List[str] = []
        assert child.stderr is not None
        reader = threading.Thread(target=_relay, args=(child.stderr, told, progress), daemon=True)
        reader.start()
        try:
            child.wait()
        except BaseException:
            _stop(child)
            raise
        finally:
            reader.join(PATIENCE_S)
        out.seek(0)
        return Outcome(child.returncode, out.read(), "".join(told))


def _relay(stream: IO[bytes], told: List[str], progress: bool) -> None:
    for line in stream:
        text = line.decode("utf-8", "replace")
        told.append(text)
        # The failure itself becomes an exception or a warning.
        if progress and not text.startswith("error:"):
            sys.stderr.write(text)
            sys.stderr.flush()
    stream.close()


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


def document(arguments: Sequence[str], *, needs: str = "", progress: bool = False) -> Tuple[Outcome, Any]:
    """Runs a command with ``--json``: how it ended, and its document; raises where the document is an error.

    ``needs`` names what an older command lacks: a refusal of it is told as such.
    """
    outcome = call(["--json", *arguments], progress=progress)
    try:
        parsed = json.loads(outcome.out)
    except ValueError:
        raise failure(outcome, needs) from None
    if isinstance(parsed, dict) and parsed.get("schema") == "weir.error/1":
        raise failure(outcome, needs, str(parsed["error"]["message"]))
    return outcome, parsed


def done(arguments: Sequence[str], *, needs: str = "") -> bytes:
    """Runs a command that must succeed, and returns what it printed."""
    outcome = call(arguments)
    if outcome.code != 0:
        raise failure(outcome, needs)
    return outcome.out


def failure(outcome: Outcome, needs: str = "", message: str = "") -> Error:
    """The exception for a command that failed."""
    message = message or told(outcome)
    message = re.sub(r"^error: ", "", message)
    unknown = UNKNOWN.search(message)
    if needs and outcome.code == 2 and unknown:
        return CommandTooOld(
            f"{find()} (Weir {version()}) does not know {unknown[2]!r}, which is needed for {needs}: install a newer one", 2
        )
    if outcome.code == 2:
        # The usage that follows is of the command line, which the caller has not written.
        return Refused(message.split("\n\nUsage:")[0].strip(), 2)
    return Error(message, outcome.code)


def told(outcome: Outcome) -> str:
    """What a command said of its failure on the standard error."""
    at = outcome.err.rfind("error: ")
    if at >= 0:
        return outcome.err[at + len("error: ") :].strip()
    if outcome.code < 0:
        return f"the command was ended by signal {-outcome.code}"
    return f"the command ended with code {outcome.code} and said nothing; {outcome.err.strip()[-400:]}".rstrip("; ")


def options(given: Mapping[str, Any], *, lists: Sequence[str] = ()) -> List[str]:
    """Keywords as options of the command line: ``save_image="d"`` is ``--save-image=d``.

    ``True`` is an option without a value; ``False`` and ``None`` leave it out. A mapping is repeated as NAME=VALUE, a list
    repeated, or joined by commas where the name is one of ``lists``. The command itself refuses what it does not know.
    """
    words: List[str] = []
    for name, value in given.items():
        flag = {"variables": "-D", "option": "-O"}.get(name, "--" + name.replace("_", "-"))
        if name == "robust" and isinstance(value, bool):
            value = "yes" if value else "no"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
            continue
        if isinstance(value, Mapping):
            texts = [f"{key}={_text(one)}" for key, one in value.items()]
        elif isinstance(value, (str, bytes, os.PathLike)) or not hasattr(value, "__iter__"):
            texts = [_text(value)]
        elif name in lists:
            texts = [",".join(_text(one) for one in value)]
        else:
            texts = [_text(one) for one in value]
        for text in texts:
            words.extend([flag + text] if len(flag) == 2 else [f"{flag}={text}"])
    return words


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return str(value)

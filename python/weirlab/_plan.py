"""A plan as nested dictionaries, written as TOML for the command, which checks it."""

from __future__ import annotations

import json
import os
from typing import Any, List, Mapping

from ._errors import Error


def to_toml(plan: Mapping[str, Any]) -> str:
    """The text of a plan: a section for each dictionary, ``[[name]]`` for each one of a list of dictionaries."""
    sections: List[str] = []
    top = {key: value for key, value in plan.items() if not _is_table(value) and not _is_tables(value)}
    if top:
        sections.append(_body(top))
    for key, value in plan.items():
        if _is_table(value):
            sections.append(f"[{_key(key)}]\n{_body(value)}")
        elif _is_tables(value):
            sections += [f"[[{_key(key)}]]\n{_body(one)}" for one in value]
    return "\n".join(sections)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_table, value))


def _body(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value, str(key))}\n" for key, value in table.items() if value is not None)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise Error(f"a key of a plan is a text, not {key!r}")
    return key if key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key) else _string(key)


def _value(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return _string(os.fspath(value))
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(one, str(key))}" for key, one in value.items() if one is not None)
        return "{ " + inner + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one, where) for one in value) + "]"
    raise Error(f"{where}: a plan holds texts, numbers, lists and dictionaries, not {type(value).__name__}")


def _string(text: str) -> str:
    # A JSON string is a TOML string, but for the one control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

"""Keyword arguments as the keys and values of an experiment file, and as words of a command line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from ftlab.errors import InputError


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def toml(key: str, value: Any) -> str:
    """A value as TOML."""
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{key}: {value} is no number that it can have")
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 and key != "time-scale" else repr(value)
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if not isinstance(text, str):
            raise InputError(f"{key}: a path must be text, not bytes")
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        fields = (f"{toml(key, str(name).replace('_', '-'))} = {toml(key, item)}" for name, item in value.items())
        return "{ " + ", ".join(fields) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(key, item) for item in value) + "]"
    raise InputError(f"{key}: {type(value).__name__} is not understood; give a number, a text, a list or a dictionary")


def lines(keys: Mapping[str, Any]) -> str:
    """Keyword arguments as lines of an experiment file; None leaves a key out."""
    given = {key.replace("_", "-"): value for key, value in keys.items() if value is not None}
    return "".join(f"{key} = {toml(key, value)}\n" for key, value in given.items())


def words(flags: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as flags; None leaves one out, True gives it without a value."""
    made = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        value = _plain(value)
        if value is None or value is False:
            continue
        if value is True:
            made.append(flag)
        elif isinstance(value, Mapping):
            made += [f"{flag}={str(key).replace('_', '-')}={_word(item)}" for key, item in value.items()]
        elif isinstance(value, (list, tuple)):
            made.append(f"{flag}={','.join(_word(item) for item in value)}")
        else:
            made.append(f"{flag}={_word(value)}")
    return made


def _word(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)

"""Schemes written in Python."""

from __future__ import annotations

import copy
import inspect
import json
import weakref
from typing import Any, ClassVar

from ftlab import _native
from ftlab.errors import InputError

Flash = _native.Flash
"""What a method gets: the chip, while the method runs."""

Record = _native.Record
"""What ``flash.read`` and ``flash.read_oob`` say of a page."""


class Scheme:
    """A flash translation layer in Python. A subclass has the six methods below that raise here; an object of it is
    made for each run, or copied from the one that was given.

    ``flash`` is good while a method runs: ``pages_per_block``, ``blocks``, ``dies``, ``page_bytes``;
    ``read(ppn)`` and ``read_oob(ppn)``, which give a record with ``kind``, ``lpn``, ``version`` and ``program``, the
    latter None for a blank page; ``program(ppn, lpn, version)`` for the page that the host writes;
    ``program_words(ppn, number, words)`` for metadata; ``copy(source, target)``; ``erase(block)``;
    ``collection(function, *arguments)``, within which commands do not wait for each other, and in it ``then()``;
    ``written(block)`` and ``erases(block)``, which are no commands. Each command takes ``cause``, a word such as
    ``"host"`` or ``"data_gc"``. Pages are numbered through all blocks.

    ``name`` is what reports call the scheme, ``phases`` are the causes under which it programs and erases, and
    ``spare_blocks`` of each die are not for data: a device without them is refused.

    >>> import ftlab
    >>> class Forgetful(ftlab.Scheme):
    ...     "Appends, and knows no way back."
    ...     phases = ("host",)
    ...     def format(self, flash, logical_pages):
    ...         self.next, self.map = 0, {}
    ...     def mount(self, flash, logical_pages):
    ...         self.format(flash, logical_pages)
    ...     def read(self, flash, lpn):
    ...         if lpn in self.map:
    ...             flash.read(self.map[lpn])
    ...         return self.map.get(lpn)
    ...     def write(self, flash, lpn):
    ...         flash.program(self.next, lpn, version=self.next + 1)
    ...         self.map[lpn] = self.next
    ...         self.next += 1
    ...     def trim(self, flash, first, count):
    ...         for lpn in range(first, first + count):
    ...             self.map.pop(lpn, None)
    ...     def flush(self, flash):
    ...         pass
    >>> ssd = ftlab.Device(Forgetful)
    >>> ssd.write(3, b"abc")
    >>> ssd.read(3)[:3], ssd.commands()
    (b'abc', ['R 0.0 host'])
    """

    name: ClassVar[str | None] = None
    phases: ClassVar[tuple[str, ...]] = ("host", "data_gc", "recovery")
    spare_blocks: ClassVar[int] = 2

    def format(self, flash: Flash, logical_pages: int) -> None:
        """Begins on a blank chip."""
        raise NotImplementedError

    def mount(self, flash: Flash, logical_pages: int) -> None:
        """Begins on a chip whose power was cut at any command: whatever is needed is on flash."""
        raise NotImplementedError

    def read(self, flash: Flash, lpn: int) -> int | None:
        """Reads a page of the host: the page of the chip that was read, or None if there is none."""
        raise NotImplementedError

    def write(self, flash: Flash, lpn: int) -> None:
        """Writes a page of the host, whose data ``flash.program`` takes along."""
        raise NotImplementedError

    def trim(self, flash: Flash, first: int, count: int) -> None:
        """Discards pages of the host."""
        raise NotImplementedError

    def flush(self, flash: Flash) -> None:
        """Makes durable what was written."""
        raise NotImplementedError

    def idle(self, flash: Flash, copies: int) -> bool:
        """Works in the background, about so many copies; whether there is more to do."""
        return False

    def audit(self, flash: Flash) -> str | None:
        """What is wrong with the scheme's state, if anything is."""
        return None


_METHODS = ("format", "mount", "read", "write", "trim", "flush")
_CLASSES: weakref.WeakKeyDictionary[type, _native.Foreign] = weakref.WeakKeyDictionary()


def foreign(scheme: Any) -> _native.Foreign | None:
    """A class or an object of a scheme in Python as the compiled half takes it; None for anything else."""
    if isinstance(scheme, type) and issubclass(scheme, Scheme):
        if scheme not in _CLASSES:
            _CLASSES[scheme] = _made(scheme, scheme)
        return _CLASSES[scheme]
    if isinstance(scheme, Scheme):
        return _made(type(scheme), lambda: copy.deepcopy(scheme))
    return None


def _made(kind: type[Scheme], make: Any) -> _native.Foreign:
    missing = [name for name in _METHODS if getattr(kind, name) is getattr(Scheme, name)]
    if missing:
        raise InputError(f"scheme {kind.__name__} lacks {', '.join(missing)}")
    summary = (inspect.getdoc(kind) or "written in Python").splitlines()[0]
    name = kind.name or kind.__name__
    if name in _native_names() or name == "all" or "," in name or not name.strip():
        raise InputError(f"scheme {kind.__name__}: the name {name!r} is taken or no name; give it another `name`")
    try:
        return _native.Foreign(name, summary, list(kind.phases), kind.spare_blocks, make)
    except ValueError as error:
        raise InputError(f"scheme {name}: {error}") from error


def _native_names() -> set[str]:
    return {row["scheme"] for row in json.loads(_native.schemes())}

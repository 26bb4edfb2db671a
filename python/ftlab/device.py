"""One device in hand."""

from __future__ import annotations

import os
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import InputError
from ftlab.scheme import foreign
from ftlab.table import Table

_FACES = {"before": 0, "torn": 1, "torn-data": 2, "after": 3}


class Device:
    """A scheme on a small chip, asked page by page: what it does to the flash, and what power cuts do to it. Nothing
    here takes time. ``keys`` are those of ``compare`` that concern a scheme: ``cache``, ``gc``, ``buffer``, ``set``.

    >>> import ftlab
    >>> ssd = ftlab.Device("page")
    >>> ssd.write(5, b"first")
    >>> ssd.commands()
    ['W 0.0 data 5 host']
    >>> ssd.cut_power("torn")
    >>> ssd.write(5, b"second")
    Traceback (most recent call last):
    ftlab.errors.PowerLost: the power is off; mount the device
    >>> ssd.mount()["torn"]
    1
    >>> ssd.read(5)[:5]
    b'first'
    """

    def __init__(self, scheme: Any = "page", device: str | os.PathLike[str] | None = None, **keys: Any) -> None:
        own = foreign(scheme)
        if own is None and not isinstance(scheme, str):
            raise InputError(f"scheme: {type(scheme).__name__} is no scheme; give a name or a class")
        if own is not None and keys:
            raise InputError(f"{', '.join(keys)}: a scheme in Python has no such parameters")
        keys |= {"device": device} if own else {"device": device, "schemes": [scheme]}
        self._native = _native.Device(_keys.lines(keys), own)
        shape = self._native.shape()
        self.scheme: str = own.name if own else scheme
        self.logical_pages: int = shape["logical_pages"]
        self.page_bytes: int = shape["page_bytes"]
        self.pages_per_block: int = shape["pages_per_block"]
        self.block_count: int = shape["blocks"]
        self.dies: int = shape["dies"]

    def _lpn(self, lpn: int) -> int:
        if isinstance(lpn, bool) or not hasattr(lpn, "__index__"):
            raise InputError(f"a page is a number, not {type(lpn).__name__}")
        number = lpn.__index__()
        if not 0 <= number < self.logical_pages:
            raise InputError(f"page {number}: the device has pages 0 to {self.logical_pages - 1}")
        return number

    def write(self, lpn: int, data: bytes = b"") -> None:
        """Writes from page ``lpn`` on, as one request: as many pages as ``data`` has, at least one; the last is filled
        up with zeros."""
        pages = max(1, -(-len(data) // self.page_bytes))
        self._native.write(self._lpn(lpn), bytes(data).ljust(pages * self.page_bytes, b"\0"))

    def read(self, lpn: int) -> bytes | None:
        """The bytes of a page; None if it holds nothing."""
        return self._native.read(self._lpn(lpn))

    def trim(self, lpn: int, count: int = 1) -> None:
        """Discards pages."""
        if not 0 < count <= self.logical_pages:
            raise InputError(f"count is {count}: it must be 1 to {self.logical_pages}")
        self._native.trim(self._lpn(lpn), count)

    def flush(self) -> None:
        """Makes everything durable."""
        self._native.flush()

    def idle(self, copies: int = 1) -> bool:
        """Lets the scheme work in the background, about so many page copies; whether there is more."""
        if not 0 <= copies < 1 << 32:
            raise InputError(f"copies is {copies}: it must not be negative")
        return self._native.idle(copies)

    def cut_power(self, face: str | None = None, after: int = 0, seed: int = 1) -> None:
        """Cuts the power: now, or in a coming command that changes the flash, after ``after`` others. ``face`` says
        what that command leaves: ``before`` nothing of it, ``torn`` garbage (of an erase, the old content),
        ``torn-data`` a sound spare area over bad data (of an erase, a mixture), ``after`` all of it, unacknowledged
        (of an erase, garbage)."""
        if face is None:
            self._native.cut()
        elif face not in _FACES:
            raise InputError(f"face is {face!r}: it must be one of {', '.join(_FACES)}")
        elif after < 0 or seed < 0:
            raise InputError("after and seed must not be negative")
        else:
            self._native.arm(_FACES[face], after, seed)

    @property
    def is_on(self) -> bool:
        """Whether it has power and is mounted."""
        return self._native.is_on()

    def mount(self) -> dict[str, int]:
        """Power is back: the scheme is built again from flash alone. What that found."""
        return dict(zip(("pages", "torn", "restored", "bad_blocks"), self._native.mount(), strict=True))

    def commands(self) -> list[str]:
        """The flash commands of the last request: ``R`` read, ``O`` read of the spare area, ``W`` program, ``P``
        partial program, ``E`` erase, with block.page and what it was for."""
        return self._native.commands()

    def counters(self) -> dict[str, int]:
        """The scheme's own counters."""
        return dict(self._native.counters())

    def pages(self) -> dict[str, Any]:
        """Arrays with an entry for each page of the chip: ``state`` (blank, current, old, other, torn, bad), ``kind``,
        ``lpn`` (-1 if there is none), ``version``, and ``cause``, what it was programmed for."""
        return self._native.pages()

    def blocks(self) -> dict[str, Any]:
        """Arrays with an entry for each block: pages ``programmed``, pages ``current``, and ``erases``."""
        return self._native.blocks()

    def table(self) -> Table:
        """The blocks that hold something, as a table."""
        blocks = self.blocks()
        used = blocks["programmed"].nonzero()[0]
        return Table({"block": used.tolist(), **{name: column[used].tolist() for name, column in blocks.items()}})

    def __repr__(self) -> str:
        power = "" if self.is_on else ", off"
        return f"<ftlab.Device {self.scheme}: {self.logical_pages} pages of {self.page_bytes} bytes{power}>"

"""Victim policies written in Python."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable
from typing import Any

from ftlab import _native
from ftlab.errors import InputError


class Candidates:
    """The blocks that may be collected, an entry for each: ``block`` its number, ``live`` its live pages, ``erases``
    how often it was erased, ``age`` how many pages the host has written since the block last changed. These are numpy
    arrays that are filled anew for the next call: copy what you keep. ``pages_per_block`` is a number.

    >>> from ftlab.policy import Candidates
    >>> Candidates(64).pages_per_block
    64
    """

    __slots__ = ("age", "block", "erases", "live", "pages_per_block")

    block: Any
    live: Any
    erases: Any
    age: Any

    def __init__(self, pages_per_block: int) -> None:
        self.pages_per_block = pages_per_block

    def __len__(self) -> int:
        return len(self.block)


class VictimPolicy:
    """A victim policy for ``gc=[…]``, made by ``victim_policy``.

    >>> import ftlab
    >>> @ftlab.victim_policy
    ... def oldest(blocks):
    ...     return blocks.block[blocks.age.argmax()]
    >>> oldest
    <victim policy oldest>
    """

    def __init__(self, function: Callable[[Candidates], int], name: str) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise InputError(f"victim policy: {name!r} is no name; give letters, digits, - and _")
        self._function = function
        self.name = name
        # Each run has a copy of a policy that keeps something.
        self._native = _native.Policy(name, lambda: copy.deepcopy(function))

    def __call__(self, blocks: Candidates) -> int:
        return self._function(blocks)

    def __repr__(self) -> str:
        return f"<victim policy {self.name}>"


_LAMBDAS = itertools.count(1)


def victim_policy(function: Callable[[Candidates], int] | None = None, *, name: str | None = None) -> Any:
    """Makes a function a victim policy: it gets ``Candidates`` and returns the block to collect. Usable in ``gc=[…]``
    of any scheme that has victims. A policy that keeps something between calls is an object with ``__call__``; every
    run begins with a copy of it.

    >>> import ftlab
    >>> @ftlab.victim_policy
    ... def fewest(blocks):
    ...     return blocks.block[blocks.live.argmin()]
    >>> device = "agrawal08:capacity=64MiB,spare=20%"
    >>> report = ftlab.compare("uniform:requests=20k", ["page"], gc=["greedy", fewest], device=device)
    >>> len(set(report.results["waf"]))
    1
    """
    if function is None:
        return lambda function: victim_policy(function, name=name)
    if not callable(function):
        raise InputError(f"victim_policy: {type(function).__name__} cannot be called")
    own = getattr(function, "__name__", None) or type(function).__name__
    return VictimPolicy(function, name or (f"lambda-{next(_LAMBDAS)}" if own == "<lambda>" else own))

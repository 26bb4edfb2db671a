"""How far a run is, on the terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

Tell = Callable[[str, int, int | None], None]


def _wanted() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class Progress:
    """A bar of tqdm's, if tqdm is installed and somebody looks; or whatever function the user gave."""

    def __init__(self, progress: bool | Tell | None) -> None:
        self._bar: Any = None
        self._label = ""
        self.tell: Tell | None = None
        if callable(progress):
            self.tell = progress
        elif progress or (progress is None and _wanted()):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                if progress:
                    raise ImportError("progress=True needs tqdm: pip install 'ftlab[progress]'") from None
                return
            self._make = tqdm
            self.tell = self._show

    def _show(self, label: str, done: int, total: int | None) -> None:
        if self._bar is None or self._bar.total != total:
            self.close()
            self._bar = self._make(total=total, unit=" requests", unit_scale=True, leave=False)
        if label != self._label:
            self._label = label
            self._bar.set_description(label)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

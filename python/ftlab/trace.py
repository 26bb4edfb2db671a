"""Workloads: trace files, arrays, generators and twins."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import InputError

_OPERATIONS = {"read": 0, "r": 0, "write": 1, "w": 1, "trim": 2, "t": 2, "flush": 3, "f": 3}


class Trace:
    """Requests: times in nanoseconds, offsets and sizes in bytes, operations. Made by ``Trace.open``,
    ``Trace.from_arrays``, ``generate``, ``twin`` and ``twin_of``.

    >>> import ftlab
    >>> trace = ftlab.Trace.from_arrays([0, 500, 900], [0, 4096, 0], [4096, 8192, 4096], ["write", "write", "read"])
    >>> len(trace), trace.profile["writes"]["bytes"]
    (3, 12288)
    """

    def __init__(self, name: str, requests: _native.Requests | None, keys: dict[str, Any]) -> None:
        self.name = name
        self._given = requests
        self._keys = keys

    @classmethod
    def open(cls, path: str | os.PathLike[str], format: str | None = None, on_error: str | None = None) -> Trace:
        """A trace file in any format that ``ftlab compare`` reads, compressed or not. It is read when it is needed.

        >>> import ftlab
        >>> ftlab.Trace.open("no-such.spc")
        Traceback (most recent call last):
        ftlab.errors.InputError: cannot read no-such.spc: no such file or directory
        """
        name = os.fspath(path)
        if not os.path.exists(name):
            raise InputError(f"cannot read {name}: no such file or directory")
        return cls(os.path.basename(name), None, {"trace": name, "format": format, "on-error": on_error})

    @classmethod
    def from_arrays(
        cls,
        time_ns: Any = None,
        offset: Any = None,
        bytes: Any = None,
        op: Any = None,
        volume: Any = None,
        *,
        name: str = "arrays",
    ) -> Trace:
        """Requests from numpy arrays, or whatever numpy makes one of: nanoseconds that never fall, offsets and sizes
        in bytes, and operations, as words or as 0 read, 1 write, 2 trim, 3 flush. The arrays are copied once. Without
        times, requests come as fast as they are served.

        One argument that speaks the Arrow stream interface (a data frame of Polars or pandas, a pyarrow table) is
        taken for a table with these columns.

        >>> import ftlab
        >>> ftlab.Trace.from_arrays([5, 3], [0, 0], [4096, 4096], ["read", "read"])
        Traceback (most recent call last):
        ftlab.errors.InputError: time_ns[1] is 3, earlier than time_ns[0], which is 5: sort the requests by time
        """
        if offset is None and bytes is None and op is None and hasattr(time_ns, "__arrow_c_stream__"):
            return cls(name, _native.from_arrow(time_ns), {})
        for argument, value in (("offset", offset), ("bytes", bytes), ("op", op)):
            if value is None:
                raise InputError(f"from_arrays lacks {argument}")
        native = _native.from_arrays(
            None if time_ns is None else _numbers("time_ns", time_ns),
            _numbers("offset", offset),
            _numbers("bytes", bytes),
            _operations(op),
            None if volume is None else _numbers("volume", volume),
        )
        return cls(name, native, {})

    @functools.cached_property
    def _requests(self) -> _native.Requests:
        return self._given or _native.read(_keys.lines(self._keys))[0]

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def profile(self) -> dict[str, Any]:
        """What it is like, as ``ftlab trace info --json`` says."""
        return json.loads(self._requests.profile())

    def to_arrow(self) -> Any:
        """The requests as an Arrow table: an object with ``__arrow_c_stream__``, as pyarrow.table and
        polars.DataFrame take it."""
        return self._requests.table()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> Any:
        """The requests as a Polars data frame."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """The requests as a pandas data frame."""
        import pyarrow

        return pyarrow.table(self).to_pandas()

    def __repr__(self) -> str:
        return f"<ftlab.Trace {self.name}>"


def _numbers(name: str, values: Any) -> Any:
    import numpy

    try:
        array = numpy.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name}: {error}") from error
    if array.size == 0:
        return array.astype(numpy.int64)
    if array.dtype.kind in "mM":
        return array.astype(f"{array.dtype.kind}8[ns]").view(numpy.int64)
    if array.dtype.kind == "f":
        nan = numpy.isnan(array)
        what = f"{name}[{int(nan.argmax())}] is NaN" if nan.any() else f"{name} holds {array.dtype}"
        raise InputError(f"{what}: it must hold whole numbers")
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} holds {array.dtype}: it must hold whole numbers")
    return array


def _operations(op: Any) -> Any:
    import numpy

    array = numpy.asarray(op)
    if array.dtype.kind not in "USOT" or array.size == 0:
        return _numbers("op", array)
    known, inverse = numpy.unique(array.astype(str), return_inverse=True)
    numbers = [_OPERATIONS.get(word.lower()) for word in known]
    for word, number in zip(known, numbers, strict=True):
        if number is None:
            index = int((array.astype(str) == word).argmax())
            raise InputError(f'op[{index}] is "{word}": it must be read, write, trim or flush')
    return numpy.array(numbers, dtype=numpy.uint8)[inverse].reshape(array.shape)


def _spec(name: str, positional: str | None, parameters: dict[str, Any]) -> str:
    items = [positional] if positional else []
    items += [f"{key.replace('_', '-')}={_keys._word(value)}" for key, value in parameters.items()]
    return name + (":" + ",".join(items) if items else "")


def _generated(spec: str) -> Trace:
    # Whatever is wrong is said now: one request is made.
    _native.read(_keys.lines({"workload": spec, "limit": 1}))
    return Trace(spec, None, {"workload": spec})


def generate(name: str, **parameters: Any) -> Trace:
    """A generated workload; ``ftlab.generators()`` lists the names and their parameters.

    >>> import ftlab
    >>> ftlab.generate("zipf", theta=0.9, requests=1000)
    <ftlab.Trace zipf:theta=0.9,requests=1000>
    """
    return _generated(_spec(name, None, parameters))


def twin(name: str = "financial1", **parameters: Any) -> Trace:
    """A statistical imitation of a published trace.

    >>> import ftlab
    >>> len(ftlab.twin("financial1", requests=1000))
    1000
    """
    return _generated(_spec("twin", name, parameters))


def twin_of(path: str | os.PathLike[str], prefix: int | str = "10k", requests: int | str = "1M") -> Trace:
    """An imitation of the beginning of a trace file: fitted to its first requests, ``prefix`` of them.

    >>> import ftlab
    >>> ftlab.twin_of("no-such.spc")
    Traceback (most recent call last):
    ftlab.errors.InputError: no-such.spc: there is no such file (check the path)
    """
    return _generated(_spec("twin-of", os.fspath(path), {"prefix": prefix, "requests": requests}))

"""What can go wrong, as exceptions."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """What was asked for is wrong: a name, a value, a file. The message is the command line's.

    >>> import ftlab
    >>> try:
    ...     ftlab.compare(schemes=["dtfl"])
    ... except ftlab.InputError as error:
    ...     print(error)
    unknown scheme "dtfl"; did you mean "dftl"?
    """


class Bug(RuntimeError):
    """The package failed where it must not: a panic of its compiled half. Please report it, with the call.

    >>> import ftlab
    >>> issubclass(ftlab.Bug, RuntimeError)
    True
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the work early. What was finished by then is in ``report``; None if nothing was.

    >>> import ftlab
    >>> print(ftlab.Interrupted(None).report)
    None
    """

    def __init__(self, report: Any = None) -> None:
        what = "interrupted before anything was finished" if report is None else "interrupted; see its .report"
        super().__init__(what)
        self.report = report


class PowerLost(RuntimeError):
    """The device has no power: mount it. A scheme sees it raised by its ``flash``, and lets it pass.

    >>> import ftlab
    >>> ssd = ftlab.Device("page")
    >>> ssd.cut_power()
    >>> try:
    ...     ssd.read(0)
    ... except ftlab.PowerLost as error:
    ...     print(error)
    the power is off; mount the device
    """


class DeviceFull(RuntimeError):
    """No block can be freed. A scheme raises it where it finds no room.

    >>> import ftlab
    >>> issubclass(ftlab.DeviceFull, RuntimeError)
    True
    """


class BrokenRule(RuntimeError):
    """A scheme asked for what NAND does not allow. The message says the command, the page and the rule. The run is
    over, also if the scheme catches the exception.

    >>> import ftlab
    >>> issubclass(ftlab.BrokenRule, RuntimeError)
    True
    """

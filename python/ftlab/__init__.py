"""A laboratory for flash translation layers: experiments, devices in hand, and prototypes written in Python.

>>> import ftlab
>>> report = ftlab.compare("zipf:requests=2k", schemes=["page", "dftl"], device="agrawal08:capacity=64MiB,spare=20%")
>>> [row["scheme"] for row in report.results]
['page', 'dftl']
"""

from ftlab import _native, plots
from ftlab.checks import Check, check, replay
from ftlab.device import Device
from ftlab.errors import BrokenRule, Bug, DeviceFull, InputError, Interrupted, PowerLost
from ftlab.experiments import compare, keys
from ftlab.papers import Reproduction, reproduce
from ftlab.parts import Reliability, reliability
from ftlab.policy import Candidates, VictimPolicy, victim_policy
from ftlab.report import Report
from ftlab.scheme import Scheme
from ftlab.sweep import Sweep, SweepStopped, load, sweep
from ftlab.table import Table
from ftlab.tables import devices, generators, recordings, schemes
from ftlab.trace import Trace, generate, twin, twin_of

__version__ = _native.VERSION

__all__ = [
    "BrokenRule",
    "Bug",
    "Candidates",
    "Check",
    "Device",
    "DeviceFull",
    "InputError",
    "Interrupted",
    "PowerLost",
    "Reliability",
    "Report",
    "Reproduction",
    "Scheme",
    "Sweep",
    "SweepStopped",
    "Table",
    "Trace",
    "VictimPolicy",
    "__version__",
    "check",
    "compare",
    "devices",
    "generate",
    "generators",
    "keys",
    "load",
    "plots",
    "recordings",
    "reliability",
    "replay",
    "reproduce",
    "schemes",
    "sweep",
    "twin",
    "twin_of",
    "victim_policy",
]

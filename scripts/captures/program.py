"""What a program of the table says of itself."""

import os
import pathlib


class Program:
    """A program that is recorded. Its file in `programs/` says what it does, in which sizes, and why that much."""

    name = ""  # in the names of its recordings
    title = ""  # for people
    packages = {}  # program -> Debian package
    files = {}  # file -> Debian package
    # Of each size: capacity_mib of the device, memory_mib of the programs and their page cache, and what else it takes.
    sizes = {}
    description = ""
    # What else limits the recording, besides the machine that made it.
    limit = ""

    def version(self):
        """The program's version, as it says itself."""
        raise NotImplementedError

    def prepare(self, at, settings):
        """Work that is done elsewhere before anything is recorded."""

    def record(self, at, settings, images):
        """Does the work on the mounted images."""
        raise NotImplementedError

    def capacity_mib(self, trace, settings):
        """The capacity of one trace's device."""
        return settings["capacity_mib"]

    def describe(self, trace, settings):
        """One or two sentences on what is done in one trace."""
        return self.description.format(**settings)

    def limits(self, size):
        much = "A short run on a small data set" if size == "minute" else "A long run"
        common = (
            f"{much}, on {machine()}. The device was an image that answers through FUSE in some hundred microseconds, "
            "whatever flash would take; arrival times are those of this chain. "
        )
        return common + self.limit


def machine():
    """The kind of machine that records."""
    information = pathlib.Path("/proc/cpuinfo").read_text()
    kind = "a virtual machine" if " hypervisor" in information else "a machine"
    return f"{kind} with {os.cpu_count()} processors"

"""Four servers at once, each on a device of its own, by `workloads/servers.py`, which states its rules."""

import sys

import rig
from program import Program

SERVERS = rig.HERE / "workloads" / "servers.py"


class Servers(Program):
    name = "servers"
    title = "four servers"
    sizes = {
        "minute": dict(capacity_mib=192, memory_mib=72, seconds=60, scale=1),
        "full": dict(capacity_mib=6144, memory_mib=1024, seconds=3600, scale=32),
    }
    # What each does and its device at minute size, in MiB.
    servers = {
        "file": ("a file server of files of 128 KiB", 192),
        "web": ("a web proxy of files of 16 KiB, five of which are read for one that is written", 128),
        "mail": ("a mail server of files of 16 KiB, each synced when it was written or grew", 160),
        "oltp": ("a database that reads three pages of 4 KiB for one that it writes durably", 192),
    }
    limit = "Requests come at a fixed mean rate, at random times, and files are drawn evenly."

    def version(self):
        return rig.asked([sys.executable, str(SERVERS), "--version"])

    def capacity_mib(self, trace, settings):
        return self.servers[trace.removeprefix("servers-")][1] * settings["scale"]

    def describe(self, trace, settings):
        return (
            f"One of four servers that are at work at the same time for {settings['seconds']} seconds, with the steps "
            f"of FileBench's profiles: {self.servers[trace.removeprefix('servers-')][0]}."
        )

    def record(self, at, settings, images):
        directories = [f"--{name}={image.root}" for name, image in zip(self.servers, images)]
        at.run([sys.executable, SERVERS, *directories, f"--seconds={settings['seconds']}",
                f"--scale={settings['scale']}", "--seed=42"])

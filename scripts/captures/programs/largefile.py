"""Large files written and deleted, by `workloads/largefile.py`, which states its rules."""

import sys

import rig
from program import Program

LARGEFILE = rig.HERE / "workloads" / "largefile.py"


class LargeFile(Program):
    name = "largefile"
    title = "LargeFile"
    sizes = {
        "minute": dict(capacity_mib=768, memory_mib=64, files=700),
        "full": dict(capacity_mib=57344, memory_mib=256, files=40000),
    }
    description = (
        "A collection of music: files of 2 to 6 MB are written until the file system is 90 % full; from then on files "
        "drawn at random make room, {files} files in all, and for every third file that is written one is read whole."
    )
    limit = "One thread, which does not think between files."

    def version(self):
        return rig.asked([sys.executable, str(LARGEFILE), "--version"])

    def record(self, at, settings, images):
        at.run([sys.executable, LARGEFILE, f"--files={settings['files']}", "--seed=42", images[0].root])

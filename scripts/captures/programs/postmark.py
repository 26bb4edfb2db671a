"""PostMark: a mail server's small files."""

import rig
from program import Program


class PostMark(Program):
    name = "postmark"
    title = "PostMark"
    packages = {"postmark": "postmark"}
    # At full size as much as its use in papers.
    sizes = {
        "minute": dict(capacity_mib=176, memory_mib=16, files=11000, transactions=32000),
        "full": dict(capacity_mib=2048, memory_mib=64, files=80000, transactions=1000000),
    }
    description = (
        "{files} files of 500 to 10,000 bytes, then {transactions} transactions: as many creations as deletions, as "
        "many reads as appends; nothing is synced."
    )
    limit = "One thread, which does not think between transactions."

    def version(self):
        # It says its version where it begins.
        return rig.asked(["sh", "-c", "echo quit | postmark"])

    def record(self, at, settings, images):
        lines = [f"set location {images[0].root}", f"set number {settings['files']}",
                 f"set transactions {settings['transactions']}", "set seed 42", "run", "quit"]
        at.run(["postmark"], text="\n".join(lines) + "\n")

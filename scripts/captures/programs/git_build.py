"""A developer's day: a clone, builds with several jobs, searches, and other versions checked out."""

import rig
from program import Program

SOURCE = "/usr/src/binutils/binutils-2.40.tar.xz"
# What is built. The assembler comes along for its tests, some ten thousand small files; the rest is left out.
LIBRARIES = ["libiberty"]
LEFT_OUT = ["bfd", "binutils", "gdb", "gold", "gprof", "gprofng", "ld", "libsframe", "libctf", "opcodes", "zlib",
            "gas/testsuite/gas/i386", "gas/testsuite/gas/mips"]


class GitBuild(Program):
    name = "git-build"
    title = "Git, GNU make and GCC"
    packages = {"git": "git", "make": "make", "gcc": "gcc", "xz": "xz-utils", "tar": "tar"}
    files = {SOURCE: "binutils-source"}
    # Git and the compilers need most of it for themselves, and so do the inodes of many small files.
    sizes = {
        "minute": dict(capacity_mib=384, memory_mib=176, rounds=3, jobs=3),
        "full": dict(capacity_mib=1024, memory_mib=384, rounds=40, jobs=4),
    }
    description = (
        "Git clones a part of GNU binutils, the assembler's tests among it, and make builds its base library with "
        "{jobs} jobs. Then {rounds} times, with an empty page cache: a search through all files, another commit that "
        "changes most of them, a build, and the way back; at the end Git packs the repository anew."
    )
    limit = "No editor and no pauses between the steps; the compiler itself lies elsewhere."

    def version(self):
        return "; ".join(rig.asked([program, "--version"]) for program in ("git", "make", "gcc"))

    def prepare(self, at, settings):
        """A repository with two commits: the source, and the same with a line more in each test and some C files."""
        source = at.work / "source"
        source.mkdir()
        at.must(["tar", "--extract", "--file", SOURCE, "--directory", source, "--strip-components=1", "--anchored",
                 *(f"--exclude=binutils-2.40/{part}" for part in LEFT_OUT)])
        git = ["git", "-C", source, "-c", "user.name=captures", "-c", "user.email=captures@localhost",
               "-c", "gc.auto=0", "-c", "core.compression=1", "-c", "core.fsync=none"]
        at.must([*git, "init", "--quiet", "--initial-branch=main"])
        at.must([*git, "add", "--all", "--force"])
        at.must([*git, "commit", "--quiet", "--message=older"])
        at.must([*git, "tag", "older"])
        for path in sorted(source.rglob("*")):
            # A build of everything would take minutes of the compiler and add little for the device.
            some = path.suffix == ".c" and path.name < "f"
            if (some or path.suffix in (".d", ".s")) and path.is_file():
                with open(path, "a") as file:
                    file.write("/* newer */\n")
        at.must([*git, "commit", "--quiet", "--all", "--message=newer"])
        at.must(["chown", "-R", f"{rig.NOBODY}:{rig.NOBODY}", source])

    def record(self, at, settings, images):
        tree, build = images[0].root / "binutils", images[0].root / "build"
        git = ["git", "-C", tree]
        # Git looks for its settings there, and trusts a repository only if they say so or its owner is the user.
        at.environment["HOME"] = str(at.scratch)
        at.run(["git", "clone", "--quiet", "--no-local", at.work / "source", tree])
        at.run(["mkdir", build])
        at.run([tree / "configure", "--quiet", "CFLAGS=-O0", "MAKEINFO=true"], cwd=build)
        make = ["make", "--silent", f"--jobs={settings['jobs']}", *(f"all-{library}" for library in LIBRARIES)]
        at.run(make, cwd=build)
        for _ in range(settings["rounds"]):
            for commit in ("older", "main"):
                at.forget()
                at.run([*git, "grep", "--count", "--threads=2", "section", "--", "*.s"])
                at.run([*git, "checkout", "--quiet", commit])
                at.run(make, cwd=build)
        at.run([*git, "repack", "--quiet", "-a", "-d"])

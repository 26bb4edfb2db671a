"""A served image with a file system on it, and programs at work there with little memory.

The chain is: image file - `ftlab serve --capture` - NBD - nbdfuse - a loop device - mkfs - mount. The loop device
reads and writes directly, so that the trace has the requests of the file system, not those of a second cache below it.
"""

import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time

MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent
NOBODY = 65534

# How each file system is made, and the Debian package of its mkfs. Blocks of 4 KiB, as on larger devices; without lazy
# initialisation the inode tables are written when the file system is made, not at some time during the recording.
FILE_SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "e2fsprogs"),
    "xfs": (["mkfs.xfs", "-q", "-f"], "xfsprogs"),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], "btrfs-progs"),
}
MOUNT_OPTIONS = "discard"

# What every recording needs besides `ftlab`, with the Debian package of each.
NEEDED = {
    "nbdfuse": "libnbd-bin",
    "fusermount3": "fuse3",
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
    "setpriv": "util-linux",
}


class Failure(Exception):
    """Why a recording could not be made."""


def search_path():
    """Where programs are looked for: PATH, what Debian keeps for root, and PostgreSQL's own directories."""
    servers = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *map(str, servers)])


def find(program):
    return shutil.which(program, path=search_path())


def asked(command):
    """The first line that a program prints, usually its version."""
    environment = {**os.environ, "PATH": search_path()}
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = answer.stdout.strip().splitlines()
    return lines[0].strip() if lines else "unknown"


class MemoryGroup:
    """A memory cgroup, version 1 or 2. It holds the pages of the files that its programs touch, too."""

    def __init__(self):
        unified, memory = pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/memory")
        controllers = unified / "cgroup.controllers"
        if controllers.exists() and "memory" in controllers.read_text().split():
            parent, self.limit = unified, "memory.max"
            try:
                (parent / "cgroup.subtree_control").write_text("+memory")
            except OSError as cause:
                raise Failure(f"no memory cgroup can be made below {parent}: {cause}") from cause
        elif os.access(memory / "cgroup.procs", os.W_OK):
            parent, self.limit = memory, "memory.limit_in_bytes"
        else:
            raise Failure("there is no memory cgroup (version 1 or 2) to keep the page cache small with")
        self.path = parent / f"ftlab-captures-{os.getpid()}"
        self.path.mkdir()

    def set(self, memory_mib):
        # Version 1 refuses a limit as long as it cannot free enough, such as pages that are being written.
        for left in reversed(range(100)):
            try:
                (self.path / self.limit).write_text(str(memory_mib * MIB))
                return
            except OSError:
                if left == 0:
                    raise
                self.empty()
                time.sleep(0.1)

    def empty(self):
        """Gives back the page cache of programs that have ended. Version 2 does so for a limit that is too small."""
        lever = self.path / "memory.force_empty"
        if lever.exists():
            lever.write_text("0")
        else:
            (self.path / self.limit).write_text("0")

    def remove(self):
        # The last pages of a program that has just ended may still be on their way out.
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def wait_until(what, there, seconds=30):
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise Failure(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)


class Image:
    """A new image that is served, captured and mounted at `root`."""

    def __init__(self, rig, name, capacity_mib, file_system):
        self.rig, self.name, self.capacity_mib, self.file_system = rig, name, capacity_mib, file_system
        self.trace = rig.out / f"{name}.iolog.zst"
        self.part = rig.out / f".{name}.iolog.zst.part"
        self.root = rig.work / "mnt" / name
        self.fuse = rig.work / f"fuse-{name}"
        self.disk = self.fuse / "disk"
        # The trace calls its volume after the image's file.
        self.file = rig.work / name
        self.server = self.nbdfuse = self.loop = None
        self.mounted = False

    def bring_up(self):
        rig = self.rig
        socket = rig.work / f"socket-{self.name}"
        device = f"agrawal08:capacity={self.capacity_mib}MiB,spare=12.5%"
        rig.must([rig.ftlab, "image", "create", self.file, "--device", device, "--scheme", "page"])
        # Of a recording that was killed. A capture overwrites nothing.
        self.part.unlink(missing_ok=True)
        serve = [rig.ftlab, "serve", "--image", self.file, "--scheme", "page"]
        serve += ["--socket", socket, "--capture", self.part]
        self.server = rig.spawn(serve)
        wait_until("ftlab serve", lambda: socket.exists() or self.server.poll() is not None)
        if self.server.poll() is not None:
            raise Failure(f"ftlab serve ended: {rig.said()}")
        self.fuse.mkdir()
        self.root.mkdir(parents=True)
        self.nbdfuse = rig.spawn(["nbdfuse", self.disk, f"nbd+unix:///?socket={socket}"])
        wait_until("nbdfuse", lambda: self.disk.exists() or self.nbdfuse.poll() is not None)
        if self.nbdfuse.poll() is not None:
            raise Failure(f"nbdfuse ended: {rig.said()}")
        self.loop = rig.must(["losetup", "--find", "--show", "--direct-io=on", self.disk]).strip()
        make = [*FILE_SYSTEMS[self.file_system][0], self.loop]
        rig.must(make)
        mount = ["mount", "-t", self.file_system, "-o", MOUNT_OPTIONS]
        rig.must([*mount, self.loop, self.root])
        self.mounted = True
        rig.commands.append(shlex.join([*make[:-1], "DEVICE"]))
        rig.commands.append(shlex.join([*mount, "DEVICE", rig.shown(self.root)]))
        os.chown(self.root, NOBODY, NOBODY)

    def take_down(self):
        """Undoes it all, whatever state it is in; returns what went wrong."""
        wrong = []
        if self.mounted and not self.rig.tries(["umount", self.root]):
            wrong.append("it could not be unmounted")
            self.rig.tries(["umount", "-l", self.root])
        if self.loop:
            self.rig.tries(["losetup", "-d", self.loop])
        if self.nbdfuse:
            # The kernel lets go of the loop device when the file system has.
            if self.disk.exists():
                self.rig.tries(["fusermount3", "-u", self.fuse], times=100)
            end(self.nbdfuse, signal.SIGTERM)
        if self.server and end(self.server, signal.SIGTERM) != 0:
            wrong.append(f"ftlab serve failed: {self.rig.said()}")
        self.file.unlink(missing_ok=True)
        return wrong


def end(process, how):
    """Ends a process and returns its exit code."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Rig:
    """Everything that one recording needs. A context: what was brought up is taken down at its end."""

    def __init__(self, ftlab, out, work, group, memory_mib):
        self.ftlab, self.out, self.work, self.group = ftlab, out, work, group
        self.memory_mib = memory_mib
        self.images, self.daemons, self.commands = [], [], []
        self.scratch = work / "scratch"
        self.log = work / "log"
        self.environment = {**os.environ, "PATH": search_path(), "LC_ALL": "C", "TZ": "UTC"}
        self.said_before = 0

    def __enter__(self):
        self.scratch.mkdir()
        os.chown(self.scratch, NOBODY, NOBODY)
        self.group.set(self.memory_mib)
        return self

    def __exit__(self, kind, failure, trace):
        for daemon in self.daemons:
            end(daemon, signal.SIGTERM)
        wrong = [f"{image.name}: {line}" for image in self.images for line in image.take_down()]
        if kind is None and wrong:
            raise Failure("; ".join(wrong))

    def image(self, name, capacity_mib, file_system):
        """A new image called `name`, mounted; its `root` is where programs work."""
        image = Image(self, name, capacity_mib, file_system)
        self.images.append(image)
        image.bring_up()
        return image

    def shown(self, text):
        """A command as it is written down: without the directories of this run."""
        text = str(text)
        if len(self.images) == 1:
            text = text.replace(str(self.images[0].root), "/mnt")
        text = text.replace(f"{self.work}/", "/")
        return text.replace(str(HERE), "scripts/captures").replace(sys.executable, "python3")

    def spawn(self, command, **options):
        log = open(self.log, "ab")
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                env=self.environment, start_new_session=True, **options)

    def must(self, command):
        """Runs a command of the chain and returns what it prints."""
        done = subprocess.run(list(map(str, command)), env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"{shlex.join(map(str, command))}: {done.stdout.strip()}")
        return done.stdout

    def tries(self, command, times=20):
        for _ in range(times):
            if subprocess.run(list(map(str, command)), env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                return True
            time.sleep(0.1)
        return False

    def said(self, lines=5):
        """The end of what the programs have printed."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:]) or "nothing was printed"

    def confined(self, command, root):
        """The command in the memory group; as nobody unless it must be root."""
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group.path / "cgroup.procs")]
        if not root:
            enter += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        return enter + list(map(str, command))

    def forget(self):
        """Writes everything back and empties the page cache, as a restart of the machine would."""
        for image in self.images:
            self.commands.append(f"sync --file-system {self.shown(image.root)}; drop the page cache")
            self.must(["sync", "--file-system", image.root])
        self.group.empty()
        self.group.set(self.memory_mib)

    def run(self, command, root=False, text="", cwd="/", expected=(0,)):
        """Runs a program with little memory, written down; returns what it prints. `text` is its standard input."""
        line = self.shown(shlex.join(map(str, command)))
        if str(cwd) != "/":
            line = f"cd {self.shown(cwd)} && {line}"
        if text:
            line += " <<'END'\n" + self.shown(text.rstrip("\n")) + "\nEND"
        self.commands.append(line)
        done = subprocess.run(self.confined(command, root), input=text, cwd=cwd, text=True, errors="replace",
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with open(self.log, "a") as log:
            log.write(f"$ {line}\n{done.stdout}\n")
        if done.returncode not in expected:
            # A client may quote a whole statement; the log has it all.
            last = " / ".join(line[:200] for line in done.stdout.strip().splitlines()[-5:])
            raise Failure(f"{line.splitlines()[0]}: exit code {done.returncode}: {last}")
        return done.stdout

    def start(self, command, ready, root=False):
        """Starts a server with little memory, written down, and waits until the path `ready` is there."""
        self.commands.append(self.shown(shlex.join(map(str, command))) + " &")
        daemon = self.spawn(self.confined(command, root))
        self.daemons.append(daemon)
        wait_until(command[0], lambda: ready.exists() or daemon.poll() is not None, 120)
        if daemon.poll() is not None:
            raise Failure(f"{command[0]} ended: {self.said()}")
        return daemon

    def stop(self, daemon):
        """Ends a server in order, as its users would."""
        self.commands.append("kill %1")
        if end(daemon, signal.SIGTERM) not in (0, -signal.SIGTERM):
            raise Failure(f"the server ended badly: {self.said()}")
        self.daemons.remove(daemon)


def describe(path, facts):
    """Writes the facts of a recording as TOML. JSON's strings, integers and arrays are TOML's, too."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, list):
            inner = "".join(f"    {json.dumps(item, ensure_ascii=False)},\n" for item in value)
            lines.append(f"{key} = [\n{inner}]\n")
        else:
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}\n")
    part = path.with_name(f".{path.name}.part")
    part.write_text("".join(lines))
    part.rename(path)


def kernel():
    """The kernel's version without what its builder has appended."""
    return "Linux " + platform.release().split("-")[0]


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")

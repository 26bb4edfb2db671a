"""Records block traces of real programs over `ftlab serve --capture`: scripts/captures [OPTION...] [NAME...].

    python3 scripts/captures                    every recording of the table
    python3 scripts/captures postgres-xfs       one; `postgres` is all of that program
    python3 scripts/captures --list             the table
    python3 scripts/captures --check            which of them can be made here, and what the others lack
    python3 scripts/captures --install          installs Debian's packages of the programs first
    python3 scripts/captures --into DIR         converts each recording into the form that ftlab ships, too

    SIZE=minute|full   how much is done (minute)
    CAPTURES=DIR       the traces go into DIR/SIZE (../captures)
    FTLAB=PROGRAM      the program (target/release/ftlab)

Each recording is a trace, NAME.iolog.zst, and what it is, NAME.toml. Needs root, FUSE, loop devices and a memory
cgroup; the images go where TMPDIR says. Exit code: 0 if all were recorded, 1 if some were not, 2 if none could be.
"""

import argparse
import difflib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import rig
import table

SIZES = ("minute", "full")


def chosen(names):
    """The rows of the names, in the order of the table; a name is a recording's or a program's."""
    if not names:
        return list(table.ROWS)
    programs = {row.program.name for row in table.ROWS}
    known = {name for row in table.ROWS for name in (row.name, *row.traces)} | programs
    wanted = set()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            advice = f"the nearest is {near[0]}" if near else "there are " + ", ".join(row.name for row in table.ROWS)
            raise rig.Failure(f"no recording is named {name}; {advice}")
        wanted |= {row.name for row in table.ROWS if name in (row.name, row.program.name, *row.traces)}
    return [row for row in table.ROWS if row.name in wanted]


def lacking(row):
    """What the row needs and this machine lacks, each with Debian's package of it."""
    make, package = rig.FILE_SYSTEMS[row.file_system]
    needed = {**rig.NEEDED, make[0]: package, **row.program.packages}
    programs = {f"the program {program}": package for program, package in needed.items() if not rig.find(program)}
    files = {f"the file {path}": package for path, package in row.program.files.items() if not os.path.exists(path)}
    return {**programs, **files}


def unfit(ftlab):
    """Why nothing can be recorded on this machine at all."""
    reasons = []
    if not shutil.which(ftlab):
        reasons.append(f"{ftlab} is no program: build it by `cargo build --release`, or name another with FTLAB")
    if os.geteuid() != 0:
        reasons.append("this is not root, who alone may mount")
    reasons += [f"there is no {path}" for path in ("/dev/fuse", "/dev/loop-control") if not os.path.exists(path)]
    return reasons


def install(rows):
    """Installs what the rows need. No packaged server is started, and PostgreSQL makes no cluster of its own."""
    packages = sorted({package for row in rows for package in lacking(row).values()})
    if not packages:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    policy = pathlib.Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    try:
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        cluster = pathlib.Path("/etc/postgresql-common/createcluster.conf")
        if "postgresql" in packages and not cluster.exists():
            cluster.parent.mkdir(parents=True, exist_ok=True)
            cluster.write_text("create_main_cluster = false\n")
        subprocess.run(["apt-get", "update", "-q"], env=environment)
        # One by one: a package that this release of Debian lacks must not keep the others away.
        for package in packages:
            command = ["apt-get", "install", "-y", "-q", "--no-install-recommends",
                       "-o", "Dpkg::Options::=--force-confold", package]
            if subprocess.run(command, env=environment).returncode != 0:
                print(f"{package} could not be installed", file=sys.stderr)
    except OSError as cause:
        print(f"nothing was installed: {cause}", file=sys.stderr)
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def record(row, size, ftlab, out, group):
    """Makes the recordings of a row: one trace, or several of programs that ran at once."""
    settings = row.program.sizes[size]
    work = pathlib.Path(tempfile.mkdtemp(prefix="ftlab-captures."))
    work.chmod(0o755)
    try:
        with rig.Rig(ftlab, out, work, group, settings["memory_mib"]) as at:
            row.program.prepare(at, settings)
            images = {}
            for trace in row.traces:
                images[trace] = at.image(trace, row.program.capacity_mib(trace, settings), row.file_system)
            row.program.record(at, settings, list(images.values()))
        for trace, image in images.items():
            rig.describe(out / f"{trace}.toml", {
                "name": trace,
                "program": row.program.title,
                "version": row.program.version(),
                "command": at.commands,
                "file-system": row.file_system,
                "mount-options": rig.MOUNT_OPTIONS,
                "kernel": rig.kernel(),
                "date": rig.today(),
                "size": size,
                "capacity-mib": image.capacity_mib,
                "memory-mib": settings["memory_mib"],
                "seed": table.SEED,
                "description": row.program.describe(trace, settings),
                "limits": row.program.limits(size),
                "recorder": rig.asked([ftlab, "--version"]),
            })
            image.part.rename(image.trace)
    finally:
        for trace in row.traces:
            (out / f".{trace}.iolog.zst.part").unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)


def ship(trace, ftlab, out, into):
    """Converts a recording into the form that is compiled into ftlab, and notes its hash."""
    into.mkdir(parents=True, exist_ok=True)
    part, shipped = into / f".{trace}.part.parquet", into / f"{trace}.parquet"
    done = subprocess.run([ftlab, "trace", "convert", out / f"{trace}.iolog.zst", part],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        raise rig.Failure(f"recorded, but not converted: {done.stdout.strip()}")
    part.rename(shipped)
    sums = into / "SHA256SUMS"
    hashes = dict(reversed(line.split()) for line in sums.read_text().splitlines()) if sums.exists() else {}
    hashes[shipped.name] = hashlib.sha256(shipped.read_bytes()).hexdigest()
    sums.write_text("".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)))
    shutil.copy(out / f"{trace}.toml", into / f"{trace}.toml")


def main():
    parser = argparse.ArgumentParser(prog="scripts/captures", description=__doc__.partition("\n\n")[0],
                                     epilog=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="recordings or programs; all if none is named")
    parser.add_argument("--list", action="store_true", help="print the table of recordings")
    parser.add_argument("--check", action="store_true", help="say what can be recorded here, and record nothing")
    parser.add_argument("--install", action="store_true", help="install the packages that are missing")
    parser.add_argument("--into", type=pathlib.Path, metavar="DIR", help="convert the recordings into DIR, too")
    args = parser.parse_args()
    size = os.environ.get("SIZE") or "minute"
    ftlab = os.environ.get("FTLAB") or "target/release/ftlab"
    out = pathlib.Path(os.environ.get("CAPTURES") or "../captures") / size
    if size not in SIZES:
        raise rig.Failure(f"SIZE is minute or full, not {size}")
    rows = chosen(args.names)
    if args.list:
        print(table.listed(rows, size), end="")
        return 0
    if args.install:
        install(rows)
    reasons = unfit(ftlab)
    if reasons and not args.check:
        raise rig.Failure("nothing was recorded:\n  " + "\n  ".join(reasons))
    for reason in reasons:
        print(f"nothing can be recorded here: {reason}")
    left_out, made = {}, []
    if not args.check:
        ftlab = str(pathlib.Path(shutil.which(ftlab)).resolve())
        out.mkdir(parents=True, exist_ok=True)
        out = out.resolve()
        group = rig.MemoryGroup()
    began = time.monotonic()
    try:
        for row in rows:
            missing = lacking(row)
            if missing:
                left_out[row.name] = "; ".join(f"{what} is missing, Debian has it in the package {package}"
                                               for what, package in missing.items())
                print(f"{row.name}: skipped: {left_out[row.name]}", flush=True)
                continue
            if args.check:
                print(f"{row.name}: can be recorded")
                continue
            row_began = time.monotonic()
            try:
                record(row, size, ftlab, out, group)
                made += row.traces
                for trace in row.traces if args.into else ():
                    ship(trace, ftlab, out, args.into)
            except (rig.Failure, OSError) as failure:
                left_out[row.name] = str(failure)
                print(f"{row.name}: failed: {failure}", flush=True)
                continue
            bytes_written = sum((out / f"{trace}.iolog.zst").stat().st_size for trace in row.traces)
            print(f"{row.name}: {time.monotonic() - row_began:.0f} s, {bytes_written:,} bytes", flush=True)
    finally:
        if not args.check:
            group.remove()
    if not args.check:
        print(f"{len(made)} traces in {out}, {time.monotonic() - began:.0f} s in all")
    if left_out:
        verb = "cannot be recorded" if args.check else "went wrong or lack a program"
        print(f"{len(left_out)} of {len(rows)} rows {verb}:")
        for name, reason in left_out.items():
            print(f"  {name}: {reason}")
    return 1 if left_out or reasons else 0


if __name__ == "__main__":
    # As Ctrl-C: what was brought up is taken down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except rig.Failure as failure:
        print(f"scripts/captures: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

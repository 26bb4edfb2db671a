"""The table of recordings: one row each."""

import dataclasses

from program import Program
from programs.git_build import GitBuild
from programs.kv_cache import KvCache
from programs.largefile import LargeFile
from programs.mariadb import MariaDb
from programs.postgres import Postgres
from programs.postmark import PostMark
from programs.redis import Redis
from programs.rocksdb import RocksDb
from programs.servers import Servers
from programs.sqlite import Sqlite

# Whatever draws at random draws from this seed, where the program takes one.
SEED = 42


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    program: Program
    file_system: str
    traces: tuple


def row(program, file_system, name=None, traces=()):
    name = name or f"{program.name}-{file_system}"
    return Row(name, program, file_system, tuple(traces) or (name,))


POSTGRES, MARIADB, SQLITE, ROCKSDB, SERVERS = Postgres(), MariaDb(), Sqlite(), RocksDb(), Servers()

ROWS = (
    row(POSTGRES, "ext4"),
    row(POSTGRES, "xfs"),
    row(POSTGRES, "btrfs"),
    row(MARIADB, "ext4"),
    row(MARIADB, "xfs"),
    row(MARIADB, "btrfs"),
    row(SQLITE, "ext4"),
    row(SQLITE, "xfs"),
    row(SQLITE, "btrfs"),
    row(ROCKSDB, "ext4"),
    row(ROCKSDB, "xfs"),
    row(ROCKSDB, "btrfs"),
    row(Redis(), "ext4", "redis"),
    row(GitBuild(), "ext4", "git-build"),
    row(PostMark(), "ext4", "postmark"),
    row(LargeFile(), "ext4", "largefile"),
    row(KvCache(), "ext4", "kv-cache"),
    row(SERVERS, "ext4", "servers", [f"servers-{server}" for server in SERVERS.servers]),
)


def listed(rows, size):
    """The rows as a table of text."""
    lines = [("row", "program", "file system", "MiB", "memory", "does")]
    for row in rows:
        settings = row.program.sizes[size]
        lines.append((row.name, row.program.title, row.file_system, str(settings["capacity_mib"]),
                      str(settings["memory_mib"]), row.program.describe(row.traces[0], settings)))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    aligned = ([cell.ljust(width) for cell, width in zip(line, widths)] for line in lines)
    return "".join("  ".join([*cells, line[5]]) + "\n" for cells, line in zip(aligned, lines))

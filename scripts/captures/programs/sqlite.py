"""SQLite under a mix of transactions like TPC-C's, by `workloads/tpcc.py`, which states its rules."""

import sys

import rig
from program import Program

TPCC = rig.HERE / "workloads" / "tpcc.py"


class Sqlite(Program):
    name = "sqlite"
    title = "SQLite"
    sizes = {
        "minute": dict(capacity_mib=320, memory_mib=40, warehouses=16, transactions=4000),
        "full": dict(capacity_mib=8192, memory_mib=512, warehouses=100, transactions=1000000),
    }
    description = (
        "A database of {warehouses} warehouses in SQLite, with a write-ahead log and synchronous=full: {transactions} "
        "transactions in the mix of TPC-C, each durable when it ends, on tables smaller than TPC-C's."
    )
    limit = "One connection, which does not think between transactions."

    def version(self):
        return rig.asked([sys.executable, "-c", "import sqlite3; print('SQLite', sqlite3.sqlite_version)"])

    def record(self, at, settings, images):
        at.run([sys.executable, TPCC, f"--warehouses={settings['warehouses']}",
                f"--transactions={settings['transactions']}", "--seed=42", images[0].root / "tpcc.db"])

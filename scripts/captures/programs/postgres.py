"""PostgreSQL under pgbench's TPC-B-like transactions."""

import rig
from program import Program


class Postgres(Program):
    name = "postgres"
    title = "PostgreSQL"
    packages = {"postgres": "postgresql", "initdb": "postgresql", "pg_ctl": "postgresql", "pgbench": "postgresql"}
    # A small write-ahead log and frequent checkpoints, so that a minute has several of them.
    sizes = {
        "minute": dict(capacity_mib=640, memory_mib=96, scale=12, clients=4, transactions=3000, wal="64MB", minutes=1,
                       buffers="24MB"),
        "full": dict(capacity_mib=16384, memory_mib=1024, scale=600, clients=16, transactions=100000, wal="1GB",
                     minutes=5, buffers="256MB"),
    }
    description = (
        "PostgreSQL makes a cluster, loads pgbench's tables at scale {scale}, and {clients} clients run {transactions} "
        "TPC-B-like transactions each, every one durable when it ends; checkpoints, full-page images and vacuum as "
        "PostgreSQL does them."
    )
    limit = "The clients do not think between transactions."

    def version(self):
        return rig.asked(["postgres", "--version"])

    def record(self, at, settings, images):
        data = images[0].root / "data"
        at.run(["initdb", "--pgdata", data, "--no-sync", "--auth=trust", "--username=bench", "--encoding=UTF8",
                "--locale=C", "--wal-segsize=4"])
        options = [
            "listen_addresses=", f"unix_socket_directories={at.scratch}", f"shared_buffers={settings['buffers']}",
            f"max_wal_size={settings['wal']}", "min_wal_size=16MB", f"checkpoint_timeout={settings['minutes']}min",
            "autovacuum_naptime=10s", "maintenance_work_mem=8MB", "max_parallel_maintenance_workers=0",
        ]
        flags = " ".join(f"-c {option}" for option in options)
        at.run(["pg_ctl", "start", "--pgdata", data, "--wait", "--log", at.scratch / "log", "--options", flags])
        try:
            bench = ["pgbench", "--host", at.scratch, "--username=bench"]
            at.run([*bench, "--initialize", f"--scale={settings['scale']}", "postgres"])
            at.run([*bench, f"--client={settings['clients']}", "--jobs=2", f"--transactions={settings['transactions']}",
                    "--random-seed=42", "postgres"])
        finally:
            at.run(["pg_ctl", "stop", "--pgdata", data, "--wait", "--mode=fast"])

"""MariaDB's InnoDB under sysbench's OLTP transactions."""

import rig
from program import Program


class MariaDb(Program):
    name = "mariadb"
    title = "MariaDB"
    packages = {
        "mariadbd": "mariadb-server-core", "mariadb-install-db": "mariadb-server-core",
        "mariadb": "mariadb-client-core", "sysbench": "sysbench",
    }
    sizes = {
        "minute": dict(capacity_mib=384, memory_mib=160, tables=4, rows=120000, threads=4, events=2000, pool="24M",
                       log="24M"),
        "full": dict(capacity_mib=16384, memory_mib=1024, tables=8, rows=5000000, threads=16, events=1000000,
                     pool="512M", log="512M"),
    }
    description = (
        "InnoDB, with direct requests, its doublewrite buffer and a durable log at each commit: sysbench fills "
        "{tables} tables of {rows} rows, then {threads} threads run {events} transactions of oltp_read_write, rows "
        "drawn from a Pareto distribution, four fifths of them from one fifth."
    )
    limit = "The threads do not think between transactions."

    def version(self):
        return rig.asked(["mariadbd", "--no-defaults", "--version"])

    def record(self, at, settings, images):
        data, socket = images[0].root / "data", at.scratch / "socket"
        at.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
                "--skip-test-db", "--skip-name-resolve"])
        daemon = at.start(
            ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}", f"--pid-file={at.scratch / 'pid'}",
             "--skip-networking", f"--innodb-buffer-pool-size={settings['pool']}",
             f"--innodb-log-file-size={settings['log']}", "--innodb-flush-log-at-trx-commit=1",
             "--innodb-flush-method=O_DIRECT", "--performance-schema=off", "--key-buffer-size=1M",
             "--aria-pagecache-buffer-size=1M"], socket)
        at.run(["mariadb", "--no-defaults", f"--socket={socket}", "--user=root", "--execute=CREATE DATABASE sbtest"])
        bench = ["sysbench", "oltp_read_write", "--db-driver=mysql", f"--mysql-socket={socket}", "--mysql-user=root",
                 f"--tables={settings['tables']}", f"--table-size={settings['rows']}", "--rand-seed=42",
                 "--rand-type=pareto"]
        at.run([*bench, "prepare"])
        at.run([*bench, f"--threads={settings['threads']}", f"--events={settings['events']}", "--time=0", "run"])
        at.stop(daemon)

"""Redis with its append-only file and its snapshots, under `workloads/kv_client.py`, which states its rules."""

import sys

import rig
from program import Program

CLIENT = rig.HERE / "workloads" / "kv_client.py"


class Redis(Program):
    name = "redis"
    title = "Redis"
    packages = {"redis-server": "redis-server"}
    sizes = {
        "minute": dict(capacity_mib=256, memory_mib=160, keys=120000, commands=40000, rounds=3),
        "full": dict(capacity_mib=8192, memory_mib=2048, keys=2000000, commands=20000000, rounds=5),
    }
    description = (
        "Redis with an append-only file that is durable after every write, rewritten when it has doubled, and a "
        "snapshot in each of {rounds} rounds: 8 clients send {commands} commands a round on {keys} keys, then the "
        "server ends, and the next one loads its files from the device."
    )
    limit = "Redis reads its files only when it starts. The clients do not think between commands."

    def version(self):
        return rig.asked(["redis-server", "--version"])

    def record(self, at, settings, images):
        data = images[0].root / "data"
        at.run(["mkdir", data])
        for number in range(settings["rounds"]):
            socket = at.scratch / f"socket-{number}"
            daemon = at.start(
                ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", data, "--appendonly", "yes",
                 "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "100",
                 "--auto-aof-rewrite-min-size", "32mb", "--rdbcompression", "no"], socket)
            at.run([sys.executable, CLIENT, f"--keys={settings['keys']}", f"--commands={settings['commands']}",
                    f"--seed={42 + number}", "--snapshot", socket])
            at.stop(daemon)
            at.forget()

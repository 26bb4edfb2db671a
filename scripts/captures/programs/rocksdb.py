"""RocksDB under its own db_bench: a fill, an overwrite, and a mix of reads and writes."""

import rig
from program import Program


class RocksDb(Program):
    name = "rocksdb"
    title = "RocksDB"
    packages = {"db_bench": "rocksdb-tools"}
    sizes = {
        "minute": dict(capacity_mib=768, memory_mib=48, keys=400000, mixed=20000, write_buffer=8 << 20,
                       file=4 << 20, base=32 << 20, cache=8 << 20),
        "full": dict(capacity_mib=32768, memory_mib=512, keys=20000000, mixed=5000000, write_buffer=64 << 20,
                     file=64 << 20, base=256 << 20, cache=128 << 20),
    }
    description = (
        "Three phases on {keys} keys with values of 400 bytes, compression off: fillrandom, overwrite of as many, both "
        "without waiting for the log; then four threads draw keys evenly, 90 of 100 operations read and 10 write, "
        "each write durable, {mixed} operations a thread."
    )
    limit = "The threads do not think between operations."

    def version(self):
        return rig.asked(["db_bench", "--version"])

    def record(self, at, settings, images):
        bench = ["db_bench", f"--db={images[0].root / 'db'}", f"--num={settings['keys']}", "--key_size=16",
                 "--value_size=400", "--compression_type=none", "--seed=42",
                 f"--write_buffer_size={settings['write_buffer']}", f"--target_file_size_base={settings['file']}",
                 f"--max_bytes_for_level_base={settings['base']}", f"--cache_size={settings['cache']}",
                 "--bloom_bits=10", "--max_background_jobs=2"]
        at.run([*bench, "--benchmarks=fillrandom"])
        at.run([*bench, "--use_existing_db", "--benchmarks=overwrite"])
        at.run([*bench, "--use_existing_db", "--benchmarks=readrandomwriterandom", "--threads=4",
                f"--reads={settings['mixed']}", "--readwritepercent=90", "--sync"])

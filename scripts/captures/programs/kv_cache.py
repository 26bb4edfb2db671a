"""The key-value cache of a language model, spilled to disk by `workloads/kv_cache.py`, which states its rules."""

import sys

import rig
from program import Program

KV_CACHE = rig.HERE / "workloads" / "kv_cache.py"


class KvCache(Program):
    name = "kv-cache"
    title = "KV cache of a language model"
    sizes = {
        "minute": dict(capacity_mib=768, memory_mib=64, turns=1300),
        "full": dict(capacity_mib=65536, memory_mib=512, turns=200000),
    }
    description = (
        "A server of a language model keeps the attention keys and values of its conversations on disk, a file each: "
        "{turns} turns, each of which reads its conversation's file whole or writes it anew, then appends; the least "
        "recently used conversations are deleted whole when the file system is 85 % full."
    )
    limit = "Two threads, which do not compute between turns as a real server would."

    def version(self):
        return rig.asked([sys.executable, str(KV_CACHE), "--version"])

    def record(self, at, settings, images):
        at.run([sys.executable, KV_CACHE, f"--turns={settings['turns']}", "--seed=42", images[0].root])

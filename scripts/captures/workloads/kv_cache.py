"""The key-value cache of a language model's server, spilled to disk. Rules:

- A conversation's attention keys and values are a file: 32 KiB for each token, as a model with 16 layers of 8 heads
  of 64 values of 16 bits has. It is written and read in chunks of 16 tokens, hence 512 KiB, without the page cache
  where the file system lets it (O_DIRECT), as such servers do.
- Three turns in ten open a conversation with a prompt of 2 to 16 chunks. The others go on with an older one, drawn so
  that number n from the last has the weight 1/n: most of what is read was written a short time ago.
- If the conversation's file is there, it is read whole; if it was evicted, it is written anew whole (the prompt is
  computed again). Then the turn appends 1 to 3 chunks. A conversation of 24 chunks is over, and a new one is opened
  instead.
- When less than 15 % of the file system is left, the conversations that were used least recently are deleted, whole,
  until 20 % is free.
- Two threads take turns of their own, each with half of the conversations. Nothing is synced: a cache may be lost.
"""

import argparse
import mmap
import os
import pathlib
import random
import threading

VERSION = "kv_cache.py 1"
CHUNK = 512 << 10
THREADS = 2


def free(directory):
    state = os.statvfs(directory)
    return state.f_bavail / (state.f_blocks - state.f_bfree + state.f_bavail)


def opened(path, flags):
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644)
    except OSError:
        return os.open(path, flags, 0o644)


class Worker:
    """One thread's conversations: `chunks` of each by its number, least recently used first."""

    def __init__(self, directory, name, seed):
        self.directory, self.name = directory, name
        self.draw = random.Random(f"{seed}-{name}")
        self.chunks, self.stored = {}, set()
        self.opened = 0
        # Aligned, as O_DIRECT demands.
        self.buffer = mmap.mmap(-1, CHUNK)
        self.buffer.write(self.draw.randbytes(CHUNK))

    def path(self, number):
        return self.directory / f"{self.name}-{number:06d}.kv"

    def write(self, number, chunks):
        file = opened(self.path(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(chunks):
            os.write(file, self.buffer)
        os.close(file)

    def read(self, number):
        file = opened(self.path(number), os.O_RDONLY)
        while os.readv(file, [self.buffer]) > 0:
            pass
        os.close(file)

    def evict(self):
        if free(self.directory) >= 0.15:
            return
        for number in [number for number in self.chunks if number in self.stored]:
            self.path(number).unlink()
            self.stored.discard(number)
            if free(self.directory) >= 0.20:
                return

    def older(self):
        """A conversation to go on with, or nothing if there is none."""
        recent = list(reversed(self.chunks))
        if not recent or self.draw.random() < 0.3:
            return None
        number = self.draw.choices(recent, weights=[1 / n for n in range(1, len(recent) + 1)])[0]
        return number if self.chunks[number] < 24 else None

    def turn(self):
        self.evict()
        number = self.older()
        if number is None:
            number, self.opened = self.opened, self.opened + 1
            self.chunks[number] = self.draw.randint(2, 16)
            self.write(number, self.chunks[number])
        elif number in self.stored:
            self.read(number)
        else:
            self.write(number, self.chunks[number])
        more = self.draw.randint(1, 3)
        self.write(number, more)
        self.stored.add(number)
        self.chunks[number] = self.chunks.pop(number) + more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    failed = []

    def work(worker):
        try:
            for _ in range(args.turns // THREADS):
                worker.turn()
        except BaseException as failure:
            failed.append(failure)
            raise

    threads = [threading.Thread(target=work, args=[Worker(args.directory, "ab"[n], args.seed)]) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

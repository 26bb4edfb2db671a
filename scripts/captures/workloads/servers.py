"""A file server, a web proxy, a mail server and a database at once, each in a directory of its own. Rules:

- The steps are those of FileBench's profiles fileserver, webproxy, varmail and oltp. Sizes of files are drawn from a
  gamma distribution of shape 1.5 around the mean, appended are 1 to 31 KiB, drawn evenly. Which file is used is drawn
  evenly.
- Each server first writes all its files. Then it runs rounds, as many as its rate times the seconds. Rounds begin at
  random times, as those of a Poisson process; one that is late begins at once.
- file: 600 files of 128 KiB on average. A round writes a new file, appends to one, reads one whole, deletes one, asks
  for the state of one. 100 rounds a second.
- web: 4,000 files of 16 KiB. A round deletes one, writes a new one, reads five whole, and appends to a log, which
  begins anew at 8 MiB. 100 rounds a second.
- mail: 2,500 files of 16 KiB at first; what is appended doubles that in time. A round deletes one, writes a new one
  and syncs it, reads one whole, appends to it and syncs it, reads another. 60 rounds a second.
- oltp: a file of 140 MiB in pages of 4 KiB. A round reads three pages and writes one, durable when the write returns
  (O_DSYNC). 100 rounds a second.

`--scale` multiplies the numbers of files and the database's size.
"""

import argparse
import os
import pathlib
import random
import sys
import time

VERSION = "servers.py 1"
PAGE = 4096
LOG_BYTES = 8 << 20


class Files:
    """A server's files: as many at the end of a round as at its beginning."""

    def __init__(self, directory, draw, count, mean):
        self.directory, self.draw, self.mean = directory, draw, mean
        self.bytes = draw.randbytes(8 * mean)
        self.made, self.names = 0, []
        for _ in range(count):
            self.create()

    def some(self):
        return self.directory / self.draw.choice(self.names)

    def create(self, sync=False):
        name = f"{self.made:07d}"
        self.made += 1
        size = min(int(self.draw.gammavariate(1.5, self.mean / 1.5)) + 1, len(self.bytes))
        self.write(self.directory / name, size, sync)
        self.names.append(name)

    def append(self, path, sync=False):
        self.write(path, self.draw.randint(1, 31) << 10, sync)

    def write(self, path, size, sync):
        with open(path, "ab", buffering=0) as file:
            file.write(self.bytes[:size])
            if sync:
                os.fsync(file.fileno())

    def read(self, path):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass

    def delete(self):
        index = self.draw.randrange(len(self.names))
        self.names[index], self.names[-1] = self.names[-1], self.names[index]
        (self.directory / self.names.pop()).unlink()


def file_server(directory, draw, scale):
    files = Files(directory, draw, 600 * scale, 128 << 10)

    def round():
        files.create()
        files.append(files.some())
        files.read(files.some())
        files.delete()
        files.some().stat()

    return round


def web_proxy(directory, draw, scale):
    files, log = Files(directory, draw, 4000 * scale, 16 << 10), directory / "log"

    def round():
        files.delete()
        files.create()
        for _ in range(5):
            files.read(files.some())
        files.append(log)
        if log.stat().st_size > LOG_BYTES:
            log.unlink()

    return round


def mail_server(directory, draw, scale):
    files = Files(directory, draw, 2500 * scale, 16 << 10)

    def round():
        files.delete()
        files.create(sync=True)
        letter = files.some()
        files.read(letter)
        files.append(letter, sync=True)
        files.read(files.some())

    return round


def database(directory, draw, scale):
    pages = 140 * 256 * scale
    page = draw.randbytes(PAGE)
    path = directory / "database"
    with open(path, "wb") as file:
        for _ in range(pages):
            file.write(page)
        file.flush()
        os.fsync(file.fileno())
    file = os.open(path, os.O_RDWR | os.O_DSYNC)
    # A database reads single pages; the kernel must not read ahead.
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)

    def round():
        for _ in range(3):
            os.pread(file, PAGE, draw.randrange(pages) * PAGE)
        os.pwrite(file, page, draw.randrange(pages) * PAGE)

    return round


# Rounds a second of each.
SERVERS = {"file": (file_server, 100), "web": (web_proxy, 100), "mail": (mail_server, 60), "oltp": (database, 100)}


def serve(name, directory, seconds, scale, seed):
    server, rate = SERVERS[name]
    draw = random.Random(f"{seed}-{name}")
    round = server(directory, draw, scale)
    due = time.monotonic()
    for _ in range(rate * seconds):
        due += draw.expovariate(rate)
        time.sleep(max(0.0, due - time.monotonic()))
        round()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=VERSION)
    for name in SERVERS:
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="DIRECTORY", required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--scale", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    children = []
    for name in SERVERS:
        child = os.fork()
        if child == 0:
            serve(name, getattr(args, name), args.seconds, args.scale, args.seed)
            os._exit(0)
        children.append(child)
    return max([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children])


if __name__ == "__main__":
    sys.exit(main())

"""Large files that are written once, read at times and deleted. Rules:

- A file has 2 to 6 MB, drawn evenly, and is written in pieces of 1 MiB, in order.
- When the file system is more than 90 % full, files drawn evenly are deleted until a new one fits.
- After every third file one is drawn evenly and read whole.
"""

import argparse
import os
import pathlib
import random

VERSION = "largefile.py 1"
PIECE = 1 << 20


def full(directory):
    """The share of the file system that is taken."""
    state = os.statvfs(directory)
    return 1 - state.f_bavail / (state.f_blocks - state.f_bfree + state.f_bavail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    song = draw.randbytes(PIECE)
    there = []
    for number in range(args.files):
        while full(args.directory) > 0.9:
            (args.directory / there.pop(draw.randrange(len(there)))).unlink()
        there.append(f"{number:06d}.mp3")
        left = draw.randint(2_000_000, 6_000_000)
        with open(args.directory / there[-1], "wb", buffering=0) as file:
            while left > 0:
                left -= file.write(song[:left])
        if number % 3 == 0:
            with open(args.directory / draw.choice(there), "rb", buffering=0) as file:
                while file.read(PIECE):
                    pass


if __name__ == "__main__":
    main()

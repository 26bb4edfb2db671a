#!/usr/bin/env python3
"""Varies one thing about the writes of a trace, to see what of it makes a result.

    ftlab trace convert TRACE writes.csv --to msr --on-error skip   (or trace generate SPEC writes.csv --to msr)
    vary-trace.py order < writes.csv > varied.csv                   in random order, at the times that were there
    vary-trace.py order --within 100000                             in random order within each 100,000 of them
    vary-trace.py interleave 64                                     64 parts of the trace side by side, a write of each
                                                                    in turn, at the times that were there
    vary-trace.py copies 4                                          four times side by side, each on its own addresses
    vary-trace.py again 8 --within 2000                             behind each, eight writes of 4 KiB to where one of
                                                                    the last 2,000 wrote
    vary-trace.py halves 0.09                                       logical blocks written whole are written in halves,
                                                                    but for so many that they are 9 % of what is written
    vary-trace.py aligned                                           a write as long as a logical block begins and ends
                                                                    with one: its ends are rounded down
    vary-trace.py held 0.9                                          before all, 90 % of the logical blocks of 80 GiB are
                                                                    written whole, so that they hold data

Input and output are lines of the MSR format: time, host, disk, operation, offset and size in bytes, response. What is
no write, or writes nothing, is left out. Copies also close the gaps between the MiB that are written. Logical blocks have
128 KiB unless --block says otherwise. What is drawn follows from --seed.
"""

import argparse
import random
import sys

OFFSET, SIZE = 4, 5
PAGE = 4096
MEBIBYTE = 1 << 20


def at(row, offset, size):
    return row[:OFFSET] + [offset, size] + row[SIZE + 1 :]


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def share(text):
    part = float(text)
    if not 0 <= part <= 1:
        raise ValueError
    return part


def order(rows, options, draw):
    window = options.within or max(1, len(rows))
    for first in range(0, len(rows), window):
        there = rows[first : first + window]
        drawn = draw.sample(there, len(there))
        yield from (time[:1] + row[1:] for time, row in zip(there, drawn))


def interleave(rows, options, draw):
    part = -(-len(rows) // options.count)
    turns = (number for place in range(part) for number in range(place, len(rows), part))
    yield from (time[:1] + rows[number][1:] for time, number in zip(rows, turns))


def copies(rows, options, draw):
    # Each MiB that is written lies behind the one before: blocks stay whole, and the copies fit.
    used = {
        mib for row in rows for mib in range(row[OFFSET] // MEBIBYTE, (sum(row[OFFSET : SIZE + 1]) - 1) // MEBIBYTE + 1)
    }
    place = {mib: number for number, mib in enumerate(sorted(used))}
    for row in rows:
        offset = place[row[OFFSET] // MEBIBYTE] * MEBIBYTE + row[OFFSET] % MEBIBYTE
        for copy in range(options.count):
            yield at(row, offset + copy * len(place) * MEBIBYTE, row[SIZE])


def again(rows, options, draw):
    for number, row in enumerate(rows):
        yield row
        for _ in range(options.count):
            before = rows[max(0, number - draw.randrange(options.within))]
            pages = max(1, before[SIZE] // PAGE)
            yield at(row, before[OFFSET] + PAGE * draw.randrange(pages), PAGE)


def whole(row, block):
    """Where the logical blocks begin and end that a write covers; without one the end is not behind the beginning."""
    return -(-row[OFFSET] // block) * block, (row[OFFSET] + row[SIZE]) // block * block


def halves(rows, options, draw):
    written = sum(row[SIZE] for row in rows)
    covered = sum(max(0, end - begin) for begin, end in (whole(row, options.block) for row in rows))
    if not covered or covered < options.share * written:
        sys.exit(f"whole logical blocks are {covered / max(1, written):.3f} of what is written, no more")
    stays = options.share * written / covered
    for row in rows:
        begin, end = whole(row, options.block)
        if end <= begin or draw.random() < stays:
            yield row
            continue
        cuts = range(begin + options.block // 2, end, options.block)
        offsets = [row[OFFSET], *cuts, row[OFFSET] + row[SIZE]]
        yield from (at(row, first, last - first) for first, last in zip(offsets, offsets[1:]))


def aligned(rows, options, draw):
    block = options.block
    for row in rows:
        begin, end = row[OFFSET] // block * block, (row[OFFSET] + row[SIZE]) // block * block
        yield at(row, begin, max(block, end - begin)) if row[SIZE] >= block else row


def held(rows, options, draw):
    if not rows:
        return
    block = options.block
    blocks = options.capacity // block
    for number in sorted(draw.sample(range(blocks), round(options.share * blocks))):
        yield at(rows[0], number * block, block)
    yield from rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block", type=int, default=128 << 10, help="bytes of a logical block")
    ways = parser.add_subparsers(required=True)

    def way(what, *arguments):
        sub = ways.add_parser(what.__name__)
        sub.set_defaults(what=what)
        for name, keys in arguments:
            sub.add_argument(name, **keys)

    way(order, ("--within", {"type": positive}))
    way(interleave, ("count", {"type": positive}))
    way(copies, ("count", {"type": positive}))
    way(again, ("count", {"type": positive}), ("--within", {"type": positive, "required": True}))
    way(halves, ("share", {"type": share}))
    way(aligned)
    way(held, ("share", {"type": share}), ("--capacity", {"type": positive, "default": 80 << 30, "help": "in bytes"}))
    options = parser.parse_args()
    rows = []
    for number, line in enumerate(sys.stdin, 1):
        row = line.rstrip("\n").split(",")
        try:
            if row[3] == "Write" and int(row[SIZE]):
                rows.append([*row[:OFFSET], int(row[OFFSET]), int(row[SIZE]), *row[SIZE + 1 :]])
        except (IndexError, ValueError):
            sys.exit(f"line {number} is none of the MSR format: {line.rstrip()}")
    for row in options.what(rows, options, random.Random(options.seed)):
        print(*row, sep=",")


if __name__ == "__main__":
    main()

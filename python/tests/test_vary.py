"""scripts/vary-trace.py: what is varied, and that nothing else is."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "vary-trace.py"
BLOCK = 128 << 10
# Offset and size: two whole logical blocks from the middle of one on, a page, a page far away, a whole block.
WRITES = [(BLOCK // 2, 3 * BLOCK), (0, 4096), (1 << 33, 4096), (7 * BLOCK, BLOCK)]


def varied(*words, writes=WRITES):
    lines = [f"{time},host,0,Write,{offset},{size},0" for time, (offset, size) in enumerate(writes)]
    lines.insert(1, "0,host,0,Read,0,4096,0")
    command = [sys.executable, SCRIPT, *map(str, words)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert all(row[3] == "Write" for row in rows)
    return [(int(row[4]), int(row[5])) for row in rows], [int(row[0]) for row in rows]


def pages(writes):
    return Counter(page for offset, size in writes for page in range(offset // 4096, (offset + size) // 4096))


def test_order():
    many = [(4096 * number, 4096) for number in range(1000)]
    drawn, times = varied("order", writes=many)
    assert drawn != many and sorted(drawn) == many and times == list(range(1000))
    near, times = varied("order", "--within", 10, writes=many)
    assert near != many and times == list(range(1000))
    assert all(sorted(near[at : at + 10]) == many[at : at + 10] for at in range(0, 1000, 10))


def test_interleave():
    many = [(4096 * number, 4096) for number in range(8)]
    woven, times = varied("interleave", 3, writes=many)
    # Parts of three, three and two.
    assert [offset // 4096 for offset, _ in woven] == [0, 3, 6, 1, 4, 7, 2, 5] and times == list(range(8))


def test_copies():
    copied, _ = varied("copies", 3)
    written = pages(copied)
    assert set(written.values()) == set(pages(WRITES).values()) and len(written) == 3 * len(pages(WRITES))
    # The offsets within a logical block are what they were.
    assert [offset % BLOCK for offset, _ in copied[::3]] == [offset % BLOCK for offset, _ in WRITES]


def test_again():
    more, _ = varied("again", 2, "--within", 1)
    assert more[::3] == WRITES
    for number, (offset, size) in enumerate(WRITES):
        for first, bytes_ in more[3 * number + 1 : 3 * number + 3]:
            assert bytes_ == 4096 and offset <= first < offset + size


def test_again_is_within_the_last_few():
    many = [(4096 * number, 4096) for number in range(2000)]
    more, _ = varied("again", 1, "--within", 5, writes=many)
    back = [(write - again) // 4096 for (write, _), (again, _) in zip(more[::2], more[1::2], strict=True)]
    assert set(back) == set(range(5))


# Half of what is written are whole logical blocks, the rest pages.
HALF_WHOLE = [
    write for block in range(1000) for write in ((2 * block * BLOCK, BLOCK), ((2 * block + 1) * BLOCK, BLOCK // 2))
]
HALF_WHOLE += [((2 * block + 1) * BLOCK + BLOCK // 2, BLOCK // 2) for block in range(1000)]


@pytest.mark.parametrize("share", [0, 0.1, 0.4, 0.5])
def test_halves(share):
    cut, _ = varied("halves", share, writes=HALF_WHOLE)
    assert pages(cut) == pages(HALF_WHOLE)
    whole = sum(size for offset, size in cut if -(-offset // BLOCK) < (offset + size) // BLOCK)
    assert abs(whole / sum(size for _, size in cut) - share) < 0.03


def test_more_halves_than_there_are():
    with pytest.raises(subprocess.CalledProcessError) as failed:
        varied("halves", 0.6, writes=HALF_WHOLE)
    assert failed.value.stderr.strip() == "whole logical blocks are 0.500 of what is written, no more"


def test_writes_of_nothing_are_left_out():
    assert varied("copies", 1, writes=[(0, 4096), (1 << 20, 0)])[0] == [(0, 4096)]


@pytest.mark.parametrize("words", [["order", "--within", 0], ["copies", 0], ["again", 1, "--within", 0]])
def test_numbers_are_positive(words):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        varied(*words)
    assert "invalid positive value: '0'" in failed.value.stderr


def test_aligned():
    assert varied("aligned")[0] == [(0, 3 * BLOCK), (0, 4096), (1 << 33, 4096), (7 * BLOCK, BLOCK)]


def test_a_line_of_another_format_is_named():
    command = [sys.executable, SCRIPT, "order"]
    done = subprocess.run(command, input="0,host,0,Write,0,4096,0\n1 2 3\n", capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.strip() == "line 2 is none of the MSR format: 1 2 3"


def test_held():
    more, times = varied("held", 0.25, "--capacity", 64 * BLOCK)
    before = more[: -len(WRITES)]
    assert more[-len(WRITES) :] == WRITES and times == [0] * 16 + list(range(len(WRITES)))
    # Whole logical blocks of the device, each of them once.
    assert len({offset for offset, _ in before}) == 16 == len(before)
    assert all(offset % BLOCK == 0 and offset < 64 * BLOCK and size == BLOCK for offset, size in before)
    assert varied("held", 0, writes=WRITES)[0] == WRITES

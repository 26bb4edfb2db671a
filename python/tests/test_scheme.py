"""Schemes written in Python."""

import contextlib
import sys
import traceback
from pathlib import Path

import numpy
import pytest

import ftlab

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

from broken_page_map import BrokenPageMap  # noqa: E402
from page_map import PageMap  # noqa: E402

ONE_DIE = "agrawal08:page=4KiB,capacity=64MiB,spare=12.5%,channels=1,chips=1,dies=1,planes=1"
WORK = "uniform:requests=10k"


def test_the_example_is_short():
    lines = (EXAMPLES / "page_map.py").read_text().splitlines()
    assert sum(1 for line in lines if line.strip()) <= 80


def test_the_page_map_is_page_command_for_command():
    ours, theirs = ftlab.Device(PageMap, ONE_DIE), ftlab.Device("page", ONE_DIE)
    generator = numpy.random.default_rng(1)
    for index in range(35_000):
        lpn = index if index < ours.logical_pages else int(generator.integers(ours.logical_pages))
        action = generator.integers(20)
        for ssd in (ours, theirs):
            if action == 0:
                ssd.read(lpn)
            elif action == 1:
                ssd.trim(lpn, 1)
            else:
                ssd.write(lpn, index.to_bytes(4, "little"))
        assert ours.commands() == theirs.commands(), f"request {index}"
    assert (ours.blocks()["erases"] == theirs.blocks()["erases"]).all() and ours.blocks()["erases"].sum() > 300


def test_it_runs_beside_the_others():
    report = ftlab.compare(WORK, ["page", PageMap], device=ONE_DIE, fill="random")
    page, ours = report.data["results"]
    assert (page["scheme"], ours["scheme"]) == ("page", "page-map")
    for key in ("flash", "by_cause", "response_us", "waf", "response_by_cause"):
        assert page[key] == ours[key], key
    assert page["erase_count"]["max"] == ours["erase_count"]["max"]
    [line] = [line for line in report.text().splitlines() if line.startswith("page-map")]
    assert line.split()[-1] == "-", "its RAM is not reported"


def test_an_object_gives_its_settings_and_every_run_a_copy():
    class Counting(PageMap):
        name = "counting"

        def __init__(self, tag):
            self.tag, self.writes = tag, 0

        def write(self, flash, lpn):
            self.writes += 1
            super().write(flash, lpn)

    prototype = Counting("a")
    ftlab.compare(WORK, [prototype], device=ONE_DIE, fill="none")
    assert prototype.writes == 0


def test_it_mounts_after_cuts_at_any_command():
    found = ftlab.check(PageMap, seeds=4, cuts=400)
    assert found, found
    assert {"host", "data_gc"} <= set(found.phases["phase"])


def test_a_bug_is_found_and_the_case_is_replayed():
    found = ftlab.check(BrokenPageMap, seeds=4, cuts=400)
    assert not found
    [first, *_] = found.failures["replay"]
    told = ftlab.replay(BrokenPageMap, first)
    assert "BrokenRule" in told[-1] and "erase was cut short" in told[-1]
    assert ftlab.replay(PageMap, first)[-1] == "nothing went wrong"


def scheme(**methods):
    return type("Wrong", (PageMap,), {"name": "wrong", **methods})


def calling(call):
    """A scheme whose hundredth write calls this instead."""

    def write(self, flash, lpn):
        self.count = getattr(self, "count", 0) + 1
        if self.count == 100:
            call(self, flash, lpn)
        PageMap.write(self, flash, lpn)

    return scheme(write=write)


def caught(flash, call):
    with contextlib.suppress(ftlab.BrokenRule):
        call()


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (calling(lambda self, flash, lpn: 1 / 0), ZeroDivisionError, "division by zero"),
        (
            calling(lambda self, flash, lpn: flash.program(0, lpn, 1)),
            ftlab.BrokenRule,
            "program of page 0: the page is",
        ),
        (calling(lambda self, flash, lpn: flash.program(9999, lpn, 1)), ftlab.BrokenRule, "out of program order"),
        (
            calling(lambda self, flash, lpn: caught(flash, lambda: flash.program(0, lpn, 1))),
            ftlab.BrokenRule,
            "program of page 0",
        ),
        (calling(lambda self, flash, lpn: flash.read(9999)), ftlab.BrokenRule, "read of page 9999: the page is blank"),
        (calling(lambda self, flash, lpn: flash.read(1 << 30)), ValueError, "the chip has pages 0 to"),
        (calling(lambda self, flash, lpn: flash.erase(1 << 20)), ValueError, "the chip has blocks 0 to"),
        (calling(lambda self, flash, lpn: flash.erase(0, "host_gc")), ValueError, "cause host_gc: must be one of host"),
        (calling(lambda self, flash, lpn: flash.read("x")), TypeError, "x|int"),
        (calling(lambda self, flash, lpn: flash.no_such_call()), AttributeError, "no_such_call"),
    ],
)
def test_what_a_scheme_does_wrong_ends_the_run(wrong, kind, message):
    with pytest.raises(kind, match=message) as raised:
        ftlab.compare(WORK, ["page", wrong], device=ONE_DIE, fill="none")
    assert raised.value.__notes__[-1] == "raised at request 100 of the run of wrong"
    assert traceback.extract_tb(raised.tb)[-1].filename == __file__ or kind is not ZeroDivisionError


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda self, flash, lpn: 7, "read returned page 7, but it read no host page"),
        (lambda self, flash, lpn: "7", "read returned '7': must be the page that it read, or None"),
        (
            lambda self, flash, lpn: (flash.read(0), 1)[1],
            "read returned page 1, but the host page that it read last is 0",
        ),
    ],
)
def test_what_read_returns_is_looked_at(answer, message):
    ssd = ftlab.Device(scheme(read=answer), ONE_DIE)
    ssd.write(0)
    with pytest.raises((ValueError, TypeError), match=message):
        ssd.read(0)


def test_flash_is_good_while_a_method_runs():
    kept = []

    def read(self, flash, lpn):
        kept.append(flash)

    ssd = ftlab.Device(scheme(read=read), ONE_DIE)
    assert ssd.read(0) is None
    for use in (lambda: kept[0].read(0), lambda: kept[0].pages_per_block, lambda: kept[0].then()):
        with pytest.raises(RuntimeError, match="only while a method of the scheme runs"):
            use()


def test_a_device_cannot_be_used_from_inside():
    ssd = None

    def read(self, flash, lpn):
        ssd.read(1)

    ssd = ftlab.Device(scheme(read=read), ONE_DIE)
    with pytest.raises(ftlab.InputError, match="cannot be used from inside"):
        ssd.read(0)


def test_metadata_are_words():
    class Noting(PageMap):
        name = "noting"

        def flush(self, flash):
            page = self.take(flash, "metadata")
            flash.program_words(page, 7, [1, 2, 3], kind="checkpoint")
            record = flash.read(page, "metadata")
            assert (record.kind, record.lpn, record.words[:3]) == ("checkpoint", 7, [1, 2, 3])
            assert record.words[3] == 2**32 - 1 and repr(record) == "<checkpoint 7 version 0>"

    ssd = ftlab.Device(Noting, ONE_DIE)
    ssd.flush()
    assert ssd.commands() == ["W 0.0 checkpoint 7 metadata", "R 0.0 metadata"]


def test_a_full_device_says_so():
    class Tight(PageMap):
        name = "tight"

        def write(self, flash, lpn):
            raise ftlab.DeviceFull("enough")

    with pytest.raises(ftlab.DeviceFull):
        ftlab.Device(Tight, ONE_DIE).write(0)
    report = ftlab.compare(WORK, [Tight], device=ONE_DIE, fill="none")
    assert report.results["ended"][0].startswith("device full")
    early = ftlab.compare(WORK, [Tight], device=ONE_DIE, fill="none", warmup=10)
    assert early.results["ended"][0].startswith("in the warm-up: device full")


def test_what_makes_no_scheme():
    class Empty(ftlab.Scheme):
        pass

    with pytest.raises(ftlab.InputError, match="scheme Empty lacks format, mount, read, write, trim, flush"):
        ftlab.Device(Empty)
    with pytest.raises(ftlab.InputError, match="the name 'page' is taken"):
        ftlab.Device(scheme(name="page"))
    with pytest.raises(ftlab.InputError, match="cause hst"):
        ftlab.Device(scheme(phases=("hst",)))
    with pytest.raises(ftlab.InputError, match="two are called wrong"):
        ftlab.compare(WORK, [scheme(), scheme()], device=ONE_DIE)
    with pytest.raises(ftlab.InputError, match="keeps 600 blocks of each die for itself"):
        ftlab.Device(scheme(spare_blocks=600), ONE_DIE)
    with pytest.raises(ftlab.InputError, match="no such parameters"):
        ftlab.Device(PageMap, ONE_DIE, gc="greedy")

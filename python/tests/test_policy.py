"""Victim policies written in Python."""

import time
import traceback

import numpy
import pytest

import ftlab

WORK = "uniform:requests=30k"


@ftlab.victim_policy
def fewest(blocks):
    return blocks.block[blocks.live.argmin()]


@pytest.mark.parametrize("scheme", ["page", "dftl", "tpftl", "lazyftl"])
def test_greedy_in_python_is_greedy(device, scheme):
    report = ftlab.compare(WORK, [scheme], gc=["greedy", fewest], device=device)
    first, second = report.data["results"]
    assert second["params"].pop("gc") == "fewest" and first["params"].pop("gc") == "greedy"
    assert first["flash"] == second["flash"] and first["response_us"] == second["response_us"]


def test_what_a_policy_sees(device):
    seen = []

    @ftlab.victim_policy(name="look")
    def looked(blocks):
        if len(seen) < 50:
            seen.append((blocks.block.copy(), blocks.live.copy(), blocks.erases.copy(), blocks.age.copy()))
        assert blocks.pages_per_block == 64 and len(blocks) == len(blocks.block)
        return int(blocks.block[0])

    ftlab.compare(WORK, ["page"], gc=looked, device=device)
    for block, live, erases, age in seen:
        assert len(block) == len(live) == len(erases) == len(age) > 0
        assert (numpy.diff(block.astype(int)) > 0).all() and (live < 64).all() and (age >= 1).all()


def test_a_policy_that_keeps_something_begins_anew_in_every_run(device):
    class Turn:
        def __init__(self):
            self.calls = 0

        def __call__(self, blocks):
            self.calls += 1
            return blocks.block[self.calls % len(blocks)]

    turn = Turn()
    policy = ftlab.victim_policy(turn, name="turn")
    first, second = (ftlab.compare(WORK, ["page"], gc=policy, device=device).results["waf"] for _ in range(2))
    assert first == second and turn.calls == 0


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (lambda blocks: 10**6, ValueError, "returned block 1000000, which is no candidate"),
        (lambda blocks: -1, ValueError, "returned block -1, which is no candidate"),
        (lambda blocks: None, TypeError, "returned None, not a block"),
        (lambda blocks: "a", TypeError, "returned 'a', not a block"),
        (lambda blocks: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_what_a_policy_does_wrong_is_raised_with_the_request(device, answer, kind, message):
    policy = ftlab.victim_policy(answer, name="bad")
    with pytest.raises(kind, match=message) as caught:
        ftlab.compare(WORK, ["page", "dftl"], gc=["greedy", policy], device=device, fill="sequential")
    [note] = caught.value.__notes__
    assert "at request" in note and "of the run of" in note
    # And the next one is not bothered.
    assert ftlab.compare(WORK, ["page"], gc=fewest, device=device).results["ended"] == ["complete"]


def test_the_traceback_leads_to_the_policys_line(device):
    @ftlab.victim_policy
    def broken(blocks):
        return blocks.no_such_column

    with pytest.raises(AttributeError) as caught:
        ftlab.compare(WORK, ["page"], gc=broken, device=device)
    assert any("no_such_column" in (frame.line or "") for frame in traceback.extract_tb(caught.tb))


def test_names(device):
    with pytest.raises(ftlab.InputError, match="two policies are called greedy"):
        ftlab.compare(WORK, ["page"], gc=ftlab.victim_policy(lambda blocks: 0, name="greedy"), device=device)
    with pytest.raises(ftlab.InputError, match="is no name"):
        ftlab.victim_policy(lambda blocks: 0, name="a,b")
    with pytest.raises(ftlab.InputError, match="decorate the function"):
        ftlab.compare(WORK, ["page"], gc=lambda blocks: 0, device=device)
    with pytest.raises(ftlab.InputError, match="gc"):
        ftlab.compare(WORK, ["null"], gc=fewest, device=device)


def test_calls_are_quick():
    calls = 0

    @ftlab.victim_policy
    def counted(blocks):
        nonlocal calls
        calls += 1
        return blocks.block[blocks.live.argmin()]

    del counted
    begin = time.perf_counter()
    ftlab.compare("uniform:requests=50k", ["page"], gc=fewest, device="agrawal08:capacity=64MiB,spare=20%")
    assert time.perf_counter() - begin < 30

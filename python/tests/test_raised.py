"""What the user's own code raises comes out where it was asked for, as it was, and nowhere else."""

import threading

import pytest

import ftlab

SMALL = "agrawal08:capacity=64MiB"


class Fails(ftlab.Scheme):
    def format(self, flash, pages):
        raise ValueError("in format")

    def mount(self, flash, pages):
        pass

    def read(self, flash, lpn):
        pass

    def write(self, flash, lpn):
        pass

    def trim(self, flash, lpn):
        pass

    def flush(self, flash):
        pass


def test_a_scheme_that_fails_to_format_raises_its_own_exception_and_leaves_none_behind():
    with pytest.raises(ValueError, match="in format"):
        ftlab.Device(Fails)
    with pytest.raises(ValueError, match="in format"):
        ftlab.compare("zipf:requests=100", Fails, device=SMALL)
    with pytest.raises(ftlab.InputError, match="seed 0: (?s:.*)ValueError: in format"):
        ftlab.check(Fails, seeds=1, cuts=10)
    ssd = ftlab.Device("page")
    ssd.write(1, b"a")
    ssd.cut_power()
    with pytest.raises(ftlab.PowerLost):
        ssd.read(1)


def test_each_thread_raises_what_its_own_policy_did():
    @ftlab.victim_policy
    def first(blocks):
        raise ValueError("first")

    @ftlab.victim_policy
    def second(blocks):
        raise ValueError("second")

    raised = {"first": set(), "second": set()}

    def run(name, policy):
        for _ in range(5):
            try:
                ftlab.compare("zipf:requests=5k", "page", gc=policy, device=SMALL)
            except ValueError as exception:
                raised[name].add(str(exception))

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in [("first", first), ("second", second)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        # They waited for each other for good.
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert raised == {"first": {"first"}, "second": {"second"}}

"""One device in hand."""

import numpy
import pytest

import ftlab


def test_what_a_teacher_shows():
    ssd = ftlab.Device("page")
    for version in range(3):
        ssd.write(7, bytes([version]))
    assert ssd.commands() == ["W 2.0 data 7 host"] or ssd.commands()[0].startswith("W ")
    pages = ssd.pages()
    mine = pages["lpn"] == 7
    assert sorted(pages["version"][mine]) == [1, 2, 3]
    assert pages["state"][mine & (pages["version"] == 3)] == ["current"]
    assert set(pages["cause"][mine]) == {"host"} and set(pages["kind"][mine]) == {"data"}
    blocks = ssd.blocks()
    assert blocks["programmed"].sum() == 3 and blocks["current"].sum() == 1
    assert len(blocks["erases"]) == ssd.block_count and blocks["erases"].sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        blocks["erases"][0] = 1
    assert len(ssd.table()) in (1, 3)
    ssd.trim(7)
    assert ssd.read(7) is None and ssd.read(8) is None


def test_collections_are_seen():
    ssd = ftlab.Device("page", "agrawal08:page=4KiB,capacity=64MiB,spare=20%,channels=1,chips=1,dies=1,planes=1")
    generator = numpy.random.default_rng(1)
    causes = set()
    for lpn in generator.integers(0, ssd.logical_pages, 40_000):
        ssd.write(int(lpn))
        causes |= {line.rsplit(" ", 1)[1] for line in ssd.commands()}
    assert causes == {"host", "data_gc"}
    assert ssd.blocks()["erases"].sum() > 100
    assert "data_gc" in ssd.pages()["cause"]
    assert ssd.counters()["gc_victims"] > 100


@pytest.mark.parametrize("face", ["before", "torn", "torn-data", "after"])
@pytest.mark.parametrize("scheme", ["page", "dftl", "fast"])
def test_power_cuts(scheme, face):
    ssd = ftlab.Device(scheme, cache=None)
    ssd.write(3, b"old")
    ssd.flush()
    ssd.cut_power(face)
    with pytest.raises(ftlab.PowerLost):
        for _ in range(100):
            ssd.write(3, b"new")
    assert not ssd.is_on and "off" in repr(ssd)
    for request in (lambda: ssd.read(3), lambda: ssd.flush(), lambda: ssd.idle(), lambda: ssd.trim(3)):
        with pytest.raises(ftlab.PowerLost):
            request()
    assert ssd.mount()["pages"] > 0
    assert ssd.read(3)[:3] in (b"old", b"new")


def test_requests_of_several_pages_and_padding():
    ssd = ftlab.Device("dftl", cache="64KiB", gc="cost-benefit", set={"dftl": {"gc_low": 4}})
    ssd.write(10, b"x" * (ssd.page_bytes + 1))
    assert ssd.read(11) == b"x" + bytes(ssd.page_bytes - 1)
    assert any(line.startswith("R") or line.startswith("O") for line in ssd.commands())
    ssd.cut_power()
    ssd.mount()
    assert ssd.read(10) == b"x" * ssd.page_bytes


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (lambda ssd: ssd.write(-1), "page -1: the device has pages 0 to 16383"),
        (lambda ssd: ssd.read(1 << 40), "the device has pages"),
        (lambda ssd: ssd.write(16383, b"x" * 8192), "pages 16383 to 16384"),
        (lambda ssd: ssd.read("7"), "a page is a number, not str"),
        (lambda ssd: ssd.trim(0, 0), "count is 0"),
        (lambda ssd: ssd.cut_power("sideways"), "face is 'sideways': it must be one of before"),
        (lambda ssd: ftlab.Device("dtfl"), 'did you mean "dftl"'),
        (lambda ssd: ftlab.Device("page", "agrawal08:capacity=16GiB"), "give a smaller capacity"),
        (lambda ssd: ftlab.Device("page", cache="8KiB"), "has the parameter cache-bytes"),
        (lambda ssd: ftlab.Device(7), "int is no scheme"),
    ],
)
def test_bad_requests(request_, message):
    with pytest.raises(ftlab.InputError, match=message):
        request_(ftlab.Device("page"))

"""Requests from arrays, from Arrow, from files and generators."""

import numpy
import pytest

import ftlab


def arrays(count=1000):
    index = numpy.arange(count)
    return {
        "time_ns": index * 1000,
        "offset": index * 7919 % 10_000 * 4096,
        "bytes": numpy.full(count, 4096),
        "op": (index % 3 > 0).astype(numpy.uint8),
    }


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint32"])
def test_whole_numbers_of_any_kind(dtype):
    columns = arrays()
    made = ftlab.Trace.from_arrays(**{name: column.astype(dtype) for name, column in columns.items()})
    assert made.profile == ftlab.Trace.from_arrays(**columns).profile


def test_views_are_read_in_order():
    columns = arrays(2000)
    thinned = {name: column[::2] for name, column in columns.items()}
    whole = {name: column.copy() for name, column in thinned.items()}
    assert ftlab.Trace.from_arrays(**thinned).profile == ftlab.Trace.from_arrays(**whole).profile


def test_words_lists_and_times_of_numpy():
    made = ftlab.Trace.from_arrays(numpy.array([0, 5], dtype="datetime64[us]"), [0, 0], [512, 0], ["Write", "flush"])
    assert made.profile["duration_ns"] == 5000 and made.profile["flushes"]["requests"] == 1


def test_there_and_back_through_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    made = ftlab.Trace.from_arrays(**arrays())
    table = pyarrow.table(made.to_arrow())
    assert table.column_names == ["time_ns", "offset", "bytes", "op", "volume"]
    assert table["op"][1].as_py() == "write"
    for source in (table, made.to_polars(), polars.from_arrow(table), table.to_pandas(), made):
        assert ftlab.Trace.from_arrays(source).profile == made.profile
    plain = polars.DataFrame({"offset": [0, 4096], "bytes": [512, 512], "op": ["read", "w"]})
    assert not ftlab.Trace.from_arrays(plain).profile["timed"]
    with pytest.raises(ftlab.InputError, match="no column op; it has offset, bytes"):
        ftlab.Trace.from_arrays(plain.drop("op"))
    with pytest.raises(ftlab.InputError, match=r"offset\[1\] is null"):
        ftlab.Trace.from_arrays(polars.DataFrame({"offset": [0, None], "bytes": [1, 1], "op": [0, 0]}))
    with pytest.raises(ftlab.InputError, match="time_ns holds Float64"):
        ftlab.Trace.from_arrays(plain.with_columns(time_ns=polars.lit(0.5)))
    with pytest.raises(ftlab.InputError, match=r'op\[1\] is "copy"'):
        ftlab.Trace.from_arrays(plain.with_columns(op=polars.Series(["read", "copy"])))


def test_an_array_runs_as_the_file_that_it_was_written_to(spc, device):
    file = ftlab.compare(spc, ["page"], device="agrawal08:capacity=512MiB")
    own = ftlab.compare(
        ftlab.Trace.from_arrays(ftlab.Trace.open(spc).to_arrow()), ["page"], device="agrawal08:capacity=512MiB"
    )
    pick = ("response_us", "flash", "by_cause", "waf")
    first, second = (report.data["results"][0] for report in (file, own))
    assert {key: first[key] for key in pick} == {key: second[key] for key in pick}


def test_files_and_generators(spc):
    trace = ftlab.Trace.open(spc, format="spc")
    assert len(trace) == 3000 and repr(trace) == "<ftlab.Trace t.spc>"
    assert len(ftlab.generate("uniform", requests="2k")) == 2000
    assert len(ftlab.twin_of(spc, prefix="1k", requests=500)) == 500
    with pytest.raises(ftlab.InputError, match="zpif"):
        ftlab.generate("zpif")
    with pytest.raises(ftlab.InputError, match="unknown trace format"):
        len(ftlab.Trace.open(spc, format="scp"))
    with pytest.raises(ftlab.InputError, match="trace is given twice"):
        ftlab.compare(trace, trace=str(spc))
    with pytest.raises(ftlab.InputError, match="cannot be given for one flow"):
        ftlab.compare([trace, "zipf"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes": numpy.full(999, 4096)}, "bytes has 999 values, offset has 1000: they must be equally many"),
        ({"time_ns": numpy.arange(1000) - 1}, r"time_ns\[0\] is -1: it must not be negative"),
        ({"time_ns": numpy.arange(1000)[::-1]}, r"time_ns\[1\] is 998, earlier than time_ns\[0\], which is 999: sort"),
        ({"time_ns": numpy.full(1000, numpy.nan)}, r"time_ns\[0\] is NaN: it must hold whole numbers"),
        ({"offset": numpy.full(1000, 0.5)}, "offset holds float64: it must hold whole numbers"),
        ({"bytes": numpy.zeros(1000, dtype=int)}, r"bytes\[0\] is 0: only a flush has no bytes"),
        ({"op": numpy.full(1000, 4)}, r"op\[0\] is 4: 0 is read, 1 write, 2 trim, 3 flush"),
        ({"op": numpy.full(1000, 3)}, r"bytes\[0\] is 4096: a flush has none"),
        ({"op": ["read"] * 999 + ["copy"]}, r'op\[999\] is "copy": it must be read, write, trim or flush'),
        ({"offset": numpy.zeros((1000, 1), dtype=int)}, "offset has 2 dimensions: it must have one"),
        ({"offset": numpy.full(1000, 2**63, dtype="uint64")}, "request 0 ends beyond"),
        ({"offset": [object()] * 1000}, "offset holds object"),
        ({"offset": ["a"] * 1000}, "offset holds"),
        ({"offset": [], "bytes": [], "op": [], "time_ns": []}, "there is no request: the arrays are empty"),
        ({"volume": numpy.full(1000, 70_000)}, r"volume\[0\] is 70000"),
        ({"op": None}, "from_arrays lacks op"),
        ({"offset": [[0], [1, 2]]}, "offset"),
    ],
)
def test_what_makes_no_requests_is_refused(change, message):
    with pytest.raises(ftlab.InputError, match=message):
        ftlab.Trace.from_arrays(**(arrays() | change))


def test_the_arrays_may_change_afterwards():
    columns = arrays()
    made = ftlab.Trace.from_arrays(**columns)
    before = made.profile
    columns["offset"][:] = 0
    assert made.profile == before

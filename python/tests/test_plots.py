"""Plots: each is drawn, and what it draws is what the report says. FTLAB_PLOTS names a directory that keeps them."""

import os

import ftlab
import pytest
from conftest import DEVICE

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from ftlab import plots  # noqa: E402


@pytest.fixture(scope="module")
def report():
    workload = "zipf:requests=60k,reads=0.3"
    return ftlab.compare(workload, ["page", "dftl", "fast"], device=DEVICE, fill="random", series="200ms", seed=7)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    pytest.importorskip("polars")
    grid = {
        "workload": "zipf:requests=5k,reads=0.3",
        "schemes": ["page", "dftl", "tpftl"],
        "cache": ["2KiB", "4KiB", "16KiB"],
        "seed": [1, 2, 3],
        "device": DEVICE,
    }
    return ftlab.sweep(grid, store=tmp_path_factory.mktemp("runs")).load()


@pytest.fixture
def keep(request, tmp_path):
    """Saves a plot and closes it."""
    kept = []

    def save(ax, name):
        directory = os.environ.get("FTLAB_PLOTS", tmp_path)
        path = os.path.join(directory, f"{name}.png")
        ax.figure.savefig(path)
        assert os.path.getsize(path) > 5000
        kept.append(ax.figure)
        return ax

    yield save
    from matplotlib import pyplot

    for figure in kept:
        pyplot.close(figure)


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def distinct(artists, style):
    assert len({style(artist) for artist in artists}) == len(artists)


def test_response_cdf(report, keep):
    ax = keep(plots.response_cdf(report), "response_cdf")
    assert "zipf:requests=60k,reads=0.3" in ax.get_title(loc="left")
    drawn = lines(ax)
    assert set(drawn) == {"page", "dftl", "fast"}
    for label, result in zip(report.labels, report.data["results"], strict=True):
        times, shares = drawn[label].get_data()
        assert times[0] == result["response_us"]["p50"] and shares[0] == 0.5
        assert times[-1] == result["response_us"]["max"] and list(shares) == sorted(shares, reverse=True)
    distinct(drawn.values(), lambda line: (line.get_linestyle(), line.get_marker()))


def test_the_longest_response_is_one_of_those_that_were_timed(keep):
    # What broke: discards, which have no response, counted too, so that the maximum stood beyond the last request.
    report = ftlab.compare("zipf:requests=2k,trims=0.5", ["page"], device=DEVICE)
    ax = keep(plots.response_cdf(report), "response_cdf_trims")
    _, shares = lines(ax)["page"].get_data()
    workload = report.data["workload"]
    assert workload["reads"] + workload["writes"] < workload["requests"]
    assert shares[-1] == 1 / (workload["reads"] + workload["writes"])


def test_response_cdf_of_every_request(tmp_path, keep):
    path = tmp_path / "requests.csv"
    report = ftlab.compare("zipf:requests=2k", ["page"], device=DEVICE, per_request=path)
    ax = keep(plots.response_cdf(report, {"page": path}), "response_cdf_exact")
    times, shares = lines(ax)["page"].get_data()
    assert len(times) == 2000 and times[-1] == pytest.approx(report.data["results"][0]["response_us"]["max"], abs=1e-3)
    assert shares[0] == 1.0
    with pytest.raises(ftlab.InputError, match="requests: the report has no run pgae; it has page"):
        plots.response_cdf(report, {"pgae": path})
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ftlab.InputError, match="is no file that per_request wrote"):
        plots.response_cdf(report, {"page": path})


def widths(ax):
    return [sum(part.patches[place].get_width() for part in ax.containers) for place in range(3)]


def test_flash_time(report, keep):
    ax = keep(plots.flash_time(report), "flash_time")
    busy = [result["flash"]["busy_us"] / 1e6 for result in report.data["results"]]
    assert widths(ax) == pytest.approx(busy)
    assert "Where the flash's time went" in ax.get_title(loc="left")
    distinct(ax.containers, lambda part: (part.patches[0].get_hatch(), part.patches[0].get_facecolor()))


@pytest.mark.parametrize("of", ["mean", "tail"])
def test_response_parts(report, keep, of):
    ax = keep(plots.response_parts(report, of), f"response_parts_{of}")
    if of == "mean":
        assert widths(ax) == pytest.approx([result["response_us"]["mean"] for result in report.data["results"]])
    with pytest.raises(ftlab.InputError, match='of: "median" is unknown'):
        plots.response_parts(report, "median")


def test_wear(report, keep):
    ax = keep(plots.wear(report), "wear")
    for label, result in zip(report.labels, report.data["results"], strict=True):
        times, shares = lines(ax)[label].get_data()
        assert times[-1] == result["erase_count"]["max"] and shares[-1] == pytest.approx(100)


def test_series(report, keep):
    ax = keep(plots.series(report), "series")
    times, values = lines(ax)["dftl"].get_data()
    rows = [row for row in report.series if row["run"] == "dftl"]
    assert list(times) == [row["seconds"] for row in rows]
    assert [value for value in values if value == value] == [
        row["mean_us"] for row in rows if row["mean_us"] is not None
    ]
    with pytest.raises(ftlab.InputError, match='no column "p99_s"; did you mean "p99_us"'):
        plots.series(report, "p99_s")
    with pytest.raises(ftlab.InputError, match="the report has no series"):
        plots.series(ftlab.compare("zipf:requests=1k", ["page"], device=DEVICE))


def test_a_sweep_as_lines_with_bands(table, keep):
    ax = keep(plots.sweep(table, "plan.cache", "response_us.mean", "plan.schemes"), "sweep_lines")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2KiB", "4KiB", "16KiB"]
    chosen = table.filter((table["plan.schemes"] == "dftl") & (table["plan.cache"] == "4KiB"))["response_us.mean"]
    assert lines(ax)["dftl"].get_ydata()[1] == pytest.approx(chosen.mean())
    page = table.filter(table["plan.schemes"] == "page")["response_us.mean"].mean()
    assert list(lines(ax)["page"].get_ydata()) == pytest.approx([page] * 3)
    assert ax.get_ylabel() == "mean response (µs)" and plots._plain("queue_us.read.p999") == (
        "99.9 % quantile of read wait in the queue (µs)"
    )
    assert len(ax.collections) == 3 and "95 % confidence over 3 runs" in ax.get_title(loc="left")
    assert "zipf:requests=5k" in ax.get_title(loc="left")
    assert plots._half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)


def test_a_sweep_as_a_heat_map(table, keep):
    ax = keep(plots.sweep(table, "plan.cache", "waf", "plan.schemes", kind="heat"), "sweep_heat")
    assert ax.images[0].get_array().shape == (3, 3) and len(ax.texts) == 9
    for other in (table.to_dicts(), table.to_pandas(), ftlab.Table.from_rows(table.to_dicts())):
        same = plots.sweep(other, "plan.cache", "waf", "plan.schemes", kind="heat")
        assert (same.images[0].get_array() == ax.images[0].get_array()).all()
        keep(same, "same")


@pytest.mark.parametrize(
    ("words", "keys", "message"),
    [
        (("plan.cahce", "waf"), {}, 'no column "plan.cahce"; did you mean "plan.cache"'),
        (("plan.cache", "waf"), {"kind": "heat"}, "by: a heat map needs"),
        (("plan.cache", "waf"), {"kind": "hot"}, 'kind: "hot" is unknown'),
    ],
)
def test_bad_plots_of_sweeps(table, words, keys, message):
    with pytest.raises(ftlab.InputError, match=message):
        plots.sweep(table, *words, **keys)
    with pytest.raises(ftlab.InputError, match="table: int is no table"):
        plots.sweep(3, *words)


def figures():
    def row(configuration, published, measured, **more):
        usual = {
            "figure": "hit ratio",
            "configuration": configuration,
            "unit": "%",
            "varied": "",
            "workload": "Financial",
        }
        usual |= {"ran_on": "twin", "source": "twin:financial-dftl", "half_width_99": None}
        return usual | {"published": published, "measured": measured} | more

    rows = [
        row("dftl", 63.0, 61.5, half_width_99=0.8),
        row("dftl", [None, 80.0], 71.0, workload="TPC-H"),
        row("page", [5.0, None], 0.5),
        row("fast", 3.0, None),
        row("fast", "page", "page"),
        row("dftl", 2.0, 3.0, figure="erases"),
    ]
    return ftlab.Reproduction("", {"experiments": [{"title": "Figure 6: what translation costs", "figures": rows}]})


def test_published_against_measured(keep):
    ax = keep(plots.published(figures()), "published")
    assert "Figure 6: what translation costs" in ax.get_title(loc="left") and "twin:financial-dftl" in ax.get_title(
        loc="left"
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "dftl, Financial (twin)",
        "dftl, TPC-H (twin)",
        "page, Financial (twin)",
    ]
    assert ax.get_xlabel() == "hit ratio (%)"
    assert keep(plots.published(figures(), "erases"), "published_erases").get_xlabel() == "erases (%)"
    with pytest.raises(ftlab.InputError, match='"hits" is not there; there are hit ratio, erases'):
        plots.published(figures(), "hits")
    with pytest.raises(ftlab.InputError, match="no number that was measured"):
        plots.published(ftlab.Reproduction("", {}))


def test_plots_on_axes_that_are_there(report):
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    assert plots.wear(report, ax=left) is left and plots.response_cdf(report, ax=right) is right
    pyplot.close(figure)

"""Experiments: the command line's, through Python."""

import itertools
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import timeless

import ftlab

SMALL = {"schemes": ["page", "dftl"], "seed": 7}


def small(device, **keys):
    return ftlab.compare("zipf:requests=5k,reads=0.3", device=device, **(SMALL | keys))


def test_a_report_is_a_table_with_sentences(device):
    report = small(device)
    text = repr(report)
    assert "scheme" in text and "dftl" in text and "mean" in text
    page = report._repr_html_()
    assert "<table>" in page and "<p>" in page and "<style" not in page
    assert "<style" in report.to_html()
    assert report.labels == ["page", "dftl"]
    assert any("seed" in line or "--fill" in line for line in report.assumptions)


def test_tables_add_up(device):
    report = small(device, series="100ms")
    results = report.results
    assert results["scheme"] == ["page", "dftl"]
    for label, programs in zip(report.labels, results["flash.programs"], strict=True):
        assert sum(row["programs"] for row in report.by_cause if row["run"] == label) == programs
    for label, mean in zip(report.labels, results["response_us.mean"], strict=True):
        parts = [row["us"] for row in report.response_by_cause if row["run"] == label and row["of"] == "mean"]
        assert sum(parts) == pytest.approx(mean, rel=1e-6)
    assert {row["run"] for row in report.series} == {"page", "dftl"}
    assert report.series["seconds"][0] >= 0


def test_data_frames(device):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    report = small(device)
    frame = report.to_polars()
    assert frame["scheme"].to_list() == ["page", "dftl"]
    assert frame["flash.erases"].dtype == polars.Int64
    assert frame["cache.hits"][0] is None
    assert list(report.to_pandas()["scheme"]) == ["page", "dftl"]
    assert isinstance(report.by_cause.to_pandas(), pandas.DataFrame)
    table = pyarrow.table(report)
    assert table.num_rows == 2 and table.schema.field("waf").type == pyarrow.float64()
    assert pyarrow.table(report.response_by_cause).num_rows == len(report.response_by_cause)


def test_saved_and_loaded(device, tmp_path):
    report = small(device)
    path = tmp_path / "r.json"
    report.save(path)
    assert os.listdir(tmp_path) == ["r.json"]
    loaded = ftlab.Report.load(path)
    assert loaded.to_json() == report.to_json() == path.read_text()
    assert pickle.loads(pickle.dumps(report)).results == report.results
    path.write_text("{}")
    with pytest.raises(ftlab.InputError, match=r"r\.json: this is no report of ftlab"):
        ftlab.Report.load(path)
    path.write_text(json.dumps(report.data | {"schema": 99}))
    with pytest.raises(ftlab.InputError, match="schema 99, this version of ftlab reads 1"):
        ftlab.Report.load(path)
    with pytest.raises(ftlab.InputError, match=r"no/r\.json"):
        report.save(tmp_path / "no" / "r.json")
    with pytest.raises(ftlab.InputError, match="cannot read"):
        ftlab.Report.load(tmp_path / "none.json")


def command():
    path = os.environ.get("FTLAB", "ftlab")
    return shutil.which(path)


@pytest.mark.skipif(command() is None, reason="the command line's program is not there; FTLAB names it")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_report_is_the_command_lines(spc, tmp_path, threads):
    theirs = tmp_path / "theirs.json"
    flags = ["--schemes=page,dftl", "--cache=8KiB,16KiB", "--gc=greedy,fifo", "--fill=random", "--series=1s"]
    subprocess.run([command(), "compare", spc, *flags, "--json", theirs], check=True, capture_output=True)
    report = ftlab.compare(
        spc,
        ["page", "dftl"],
        cache=["8KiB", 16384],
        gc=["greedy", "fifo"],
        fill="random",
        series="1s",
        threads=threads,
    )

    def lines(text):
        return [line for line in text.splitlines(keepends=True) if "wall_seconds" not in line]

    assert lines(report.to_json()) == lines(theirs.read_text())


def test_threads_do_not_change_a_report(device):
    one, two = (timeless(small(device, threads=threads, repeat=3).data) for threads in (1, 2))
    assert one == two


def test_outputs_of_the_command_line_are_written(device, tmp_path):
    report = small(device, json=tmp_path / "a.json", csv=tmp_path / "a.csv", html=tmp_path / "a.html")
    assert (tmp_path / "a.json").read_text() == report.to_json()
    assert (tmp_path / "a.csv").read_text().startswith("scheme,")


def test_keys_are_those_of_an_experiment_file(device):
    report = small(device, set={"page": {"gc_low": 4}}, repeat=2, host="closed:8", mount_cost=True, limit="2k")
    assert report.data["results"][0]["params"]["gc-low"] == 4
    assert report.data["results"][0]["repeats"]["n"] == 2
    assert report.data["workload"]["requests"] == 2000
    assert {"schemes", "set", "time_scale", "mount_cost"} <= set(ftlab.keys())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"chache": "4KiB"}, 'unknown key "chache"; did you mean "cache"'),
        ({"schemes": ["dtfl"]}, 'unknown scheme "dtfl"; did you mean "dftl"'),
        ({"gc": "gredy"}, 'unknown policy "gredy"; did you mean "greedy"'),
        ({"cache": "64KB"}, "cache: invalid value '64KB' for '--cache <SIZES>'"),
        ({"fill": "stedy"}, "fill: invalid value 'stedy'"),
        ({"time_scale": float("nan")}, "time-scale: nan is no number"),
        ({"seed": -1}, "seed: invalid value '-1'"),
        ({"schemes": []}, "schemes is an empty list"),
        ({"device": "agrawal80"}, "agrawal80"),
        ({"set": {"page": {"gc_lw": 4}}}, "gc-lw"),
        ({"cache": object()}, "cache: object is not understood"),
        ({"workload": "zipf"}, "twice|cannot be used"),
        ({"json": "/no/such/directory/a.json"}, "no directory /no/such/directory"),
    ],
)
def test_bad_keys_are_refused_in_the_words_of_the_command_line(device, keys, message):
    with (
        pytest.raises(ftlab.InputError, match=message)
        if "workload" not in keys
        else pytest.raises((ftlab.InputError, TypeError))
    ):
        small(**({"device": device} | keys))


def test_bad_workloads():
    for workload, message in [
        ("no-such-file.spc", "cannot read no-such-file.spc: no such file"),
        ("zipf:thetta=1", "thetta"),
        (42, "workload: int is no workload"),
        (b"bytes", "bytes"),
    ]:
        with pytest.raises(ftlab.InputError, match=message):
            ftlab.compare(workload)


def test_flows_share_a_device(device):
    mine = ftlab.Trace.from_arrays(None, [0, 4096] * 500, [4096] * 1000, ["read", "write"] * 500, name="mine")
    report = ftlab.compare([mine, "zipf:requests=1k"], ["page"], device=device)
    assert [flow["name"] for flow in report.data["results"][0]["flows"]] == ["mine", "zipf:requests=1k"]


def test_progress_is_told(device):
    told = []
    small(device, fill="random", progress=lambda *what: told.append(what))
    label, done, total = told[-1]
    assert label == "running" and done <= total == 10_000

    def broken(*_):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        ftlab.compare("zipf:requests=20M", ["page"], progress=broken)


def test_a_bar_of_tqdm(device, capfd):
    pytest.importorskip("tqdm")
    small(device, progress=True)
    assert "running" in capfd.readouterr().err


def test_other_threads_run_meanwhile():
    counted = []
    over = threading.Event()

    def count():
        while not over.is_set():
            counted.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    ftlab.compare("zipf:requests=1M", ["page"], progress=False)
    took = time.perf_counter() - begin
    over.set()
    thread.join()
    gaps = [later - earlier for earlier, later in itertools.pairwise(counted)]
    # Holding the interpreter would show as one gap as long as the run.
    assert max(gaps) < max(0.5 * took, 0.1)


def test_interrupted_within_a_moment_with_what_was_finished():
    code = """
import os, signal, threading, time, ftlab
def fire():
    time.sleep(1.0)
    global fired
    fired = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=fire).start()
try:
    ftlab.compare("zipf:requests=2G", ["page"], device="agrawal08:capacity=64MiB,spare=20%", progress=False)
except KeyboardInterrupt as stopped:
    took = time.perf_counter() - fired
    print(took, type(stopped).__name__, stopped.report is None or stopped.report.data["results"][0]["ended"])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    took, kind, ended = ran.stdout.split(maxsplit=2)
    assert kind == "Interrupted" and ended.strip() in ("True", "interrupted"), ran.stderr
    assert float(took) < 1.0  # 0.1 s on an idle machine


def test_interrupted_in_the_second_run_keeps_the_first():
    code = """
import os, signal, threading, time, ftlab
def tell(label, done, total):
    if total and done > total * 0.55:
        os.kill(os.getpid(), signal.SIGINT)
try:
    ftlab.compare("zipf:requests=1M", ["page", "dftl"], device="agrawal08:capacity=64MiB,spare=20%", threads=1,
                  progress=tell)
except KeyboardInterrupt as stopped:
    print(*(result["ended"] for result in stopped.report.data["results"]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["complete", "interrupted"], ran.stderr


def test_signals_with_handlers_of_their_own():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Alarm):
            ftlab.compare("zipf:requests=2G", ["page"], device="agrawal08:capacity=64MiB,spare=20%", progress=False)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_tables():
    schemes = ftlab.schemes()
    assert "canary" not in schemes["scheme"] and len(schemes) > 20
    assert {"parameter", "default", "range"} <= set(schemes["parameters"][1][0])
    assert ftlab.devices()["page_bytes"][0] > 0
    assert any(name.startswith("twin:") for name in ftlab.generators()["workload"])


def test_check_and_replay():
    found = ftlab.check("dftl", seeds=4, cuts=300)
    assert found and found.cuts >= 300
    assert found.failures.to_dicts() == [] and "host" in found.phases["phase"]
    assert repr(found).startswith("dftl: held over")
    found = ftlab.check("lazyftl", seeds=2, cuts=5000, faults="all")
    assert found and all(":un" in case for case in found.unpromised["replay"]) and len(found.unpromised) > 0
    assert ftlab.replay("dftl", "1:5", operations=60)[-1] == "nothing went wrong"
    for call in [
        lambda: ftlab.check("dtfl"),
        lambda: ftlab.check("null"),
        lambda: ftlab.check("page", cuts="many"),
        lambda: ftlab.replay("page", "nonsense"),
    ]:
        with pytest.raises(ftlab.InputError):
            call()


def test_reproduce(tmp_path):
    assert "dftl" in repr(ftlab.reproduce(list=True))
    with pytest.raises(ftlab.InputError, match="unknown paper"):
        ftlab.reproduce("dtfl")


def test_reproduce_tells_claims_and_makes_a_page(tmp_path):
    paper = tmp_path / "experiments" / "small"
    paper.mkdir(parents=True)
    (paper / "paper.toml").write_text(
        'title = "A small paper"\ndevice = "scftl-paper:capacity=64MiB"\nrequests = "300"\n'
        '[[workload]]\nname = "random"\ngenerator = "uniform:reads=0.5"\n'
    )
    (paper / "figure-1.toml").write_text(
        'title = "Figure 1"\nsource = "nowhere"\nsays = "Nothing."\nconfiguration = [{ name = "page" }]\n'
        '[[row]]\nlabel = "mean"\nmeasure = "response_us.mean"\nunit = "ms"\nof = "page"\npublished = { random = 1 }\n'
    )
    (paper / "claims.toml").write_text(
        '[[claim]]\nname = "quick"\nsays = "Pages are quick"\nexperiment = "figure-1"\nworkloads = ["random"]\n'
        'row = "mean"\nsee = "small.md#quick"\n'
    )
    files = tmp_path / "experiments"
    file = tmp_path / "small.html"
    found = ftlab.reproduce("small", experiments=files, html=file)
    assert found.data["experiments"] and "A small paper" in found.text
    assert found.page.startswith("<!doctype html>") and file.read_text() == found.page
    found = ftlab.reproduce("small", experiments=files, summary=True, html=True)
    assert "| small/quick: Pages are quick |" in found.text and "Figure 1" in found.page
    assert ftlab.reproduce("small", experiments=files).page is None


def test_reliability():
    found = ftlab.reliability(pe_cycles=[0, 3000], retention=["0", "1y"], code="bch:t=24,data=1024")
    rows = found.results.to_dicts()
    assert rows and all("code" in row for row in rows)
    with pytest.raises(ftlab.InputError, match="--code"):
        ftlab.reliability(code="bch:t=0")

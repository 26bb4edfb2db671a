"""Sweeps: on threads, processes and Dask; killed, repeated, refused."""

import concurrent.futures
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import ftlab
import pytest
from conftest import DEVICE, timeless
from ftlab.sweep import grid as grids
from ftlab.sweep.executors import Processes
from ftlab.sweep.store import Store

pytest.importorskip("pyarrow")
pytest.importorskip("polars")

SPAWN = multiprocessing.get_context("spawn")
GRID = {
    "workload": "zipf:requests=2k,reads=0.3",
    "schemes": ["page", "dftl"],
    "cache": ["2KiB", "4KiB"],
    "seed": [1, 2],
    "device": DEVICE,
}


class Logging:
    """Greedy; the first collection of each run leaves a line in a file."""

    def __init__(self, path):
        self.path, self.begun = str(path), False

    def __call__(self, blocks):
        if not self.begun:
            self.begun = True
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()}\n")
        return blocks.block[blocks.live.argmin()]


def logged(tmp_path, runs, requests):
    log = tmp_path / "begun"
    log.touch()
    policy = ftlab.victim_policy(Logging(log), name="logging")
    grid = {"workload": f"uniform:requests={requests},reads=0", "schemes": "page", "gc": policy, "device": DEVICE}
    return grid | {"seed": range(1, runs + 1)}, log


def begun(log):
    return log.read_text().split()


def reports(done):
    return {key: timeless(done.report(key).data) for key in done.keys}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    done = ftlab.sweep(GRID, store=tmp_path_factory.mktemp("expected"))
    return reports(done)


def local_cluster(distributed, workers):
    """A cluster on a port of its own: on Dask's usual port a second one warns, and warnings are errors here."""
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    return distributed.LocalCluster(**options)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with local_cluster(distributed, 2) as cluster, distributed.Client(cluster) as client:
        yield client


# Grids


def test_a_list_is_an_axis_and_a_tuple_is_a_value():
    runs, _ = grids.runs({"schemes": ["page", ("page", "dftl")], "seed": range(3), "set": {"dftl": {"gc_low": [3, 4]}}})
    assert [run.plan["schemes"] for run in runs].count("page") == 3  # `set` of dftl is not for page alone
    assert [run.plan["schemes"] for run in runs].count(["page", "dftl"]) == 6
    assert {run.plan["set"]["dftl"]["gc-low"] for run in runs if "set" in run.plan} == {3, 4}
    assert grids.columns(runs[-1].plan) == {"plan.schemes": "page + dftl", "plan.seed": 2, "plan.set.dftl.gc-low": 4}


def test_keys_follow_plan_and_files_and_not_the_place(tmp_path, spc):
    def key(**plan):
        (run,), _ = grids.runs(plan)
        return run.key

    assert key(seed=1, cache="4KiB") == key(cache="4KiB", seed=1) != key(cache="4KiB", seed=2)
    elsewhere = tmp_path / "elsewhere" / spc.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(spc.read_bytes())
    assert key(workload=spc) == key(workload=elsewhere) == key(trace=str(spc))
    assert key(workload=ftlab.Trace.open(spc, format="spc")) == key(workload=spc, format="spc") != key(workload=spc)
    before = key(workload=f"twin-of:{spc},prefix=1k")
    spc.write_text(spc.read_text() + "0,0,4096,w,9.0\n")
    assert key(workload=spc) != key(workload=elsewhere)
    assert key(workload=f"twin-of:{spc},prefix=1k") != before
    one, two = (ftlab.Trace.from_arrays(None, [0, at], [4096, 4096], ["write", "write"]) for at in (4096, 8192))
    assert key(workload=one) != key(workload=two)
    policies = [ftlab.victim_policy(Logging(path), name="logging") for path in "ab"]
    assert key(gc=policies[0]) != key(gc=policies[1])


def test_keys_follow_the_version(monkeypatch):
    (run,), _ = grids.runs({"seed": 1})
    monkeypatch.setattr(grids._native, "VERSION", "0.0.1")
    (other,), _ = grids.runs({"seed": 1})
    assert run.key != other.key


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"chache": ["4KiB"]}, 'unknown key "chache"; did you mean "cache"'),
        ({"seed": []}, "seed is an empty list"),
        ([], "it has no runs"),
        ([{}, 3], "int is no dictionary"),
        ({"json": "a.json"}, "json is for one comparison"),
        ({"time_scale": [1.0, float("nan")]}, "time-scale: nan is no number"),
        ({"cache": [object()]}, "cache: object is not understood"),
        ({"workload": "zipf", "trace": "a"}, "workload is given twice"),
        ({"gc": ftlab.victim_policy(eval("lambda blocks: 0"), name="evaluated")}, "its code cannot be read"),
    ],
)
def test_bad_grids_are_refused_before_anything_runs(grid, message, tmp_path):
    with pytest.raises(ftlab.InputError, match=re.escape(message)):
        ftlab.sweep(grid, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


# Executors


def test_run_again_does_only_what_is_missing(tmp_path, expected):
    told = []
    done = ftlab.sweep(GRID, store=tmp_path, progress=lambda *what: told.append(what))
    assert (len(done.keys), done.ran, done.found, done.failed) == (6, 6, 0, 0)
    assert told[-1] == ("sweeping", 6, 6)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    again = ftlab.sweep(GRID, store=tmp_path)
    assert (again.ran, again.found) == (0, 6)
    (tmp_path / f"{done.keys[3]}.parquet").unlink()
    more = ftlab.sweep(GRID | {"seed": [1, 2, 3]}, store=tmp_path)
    assert (more.ran, more.found) == (4, 5)
    for path, stamp in stamps.items():
        assert path.stem == done.keys[3] or path.stat().st_mtime_ns == stamp
    assert reports(again) == expected
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "executor",
    [
        lambda: concurrent.futures.ThreadPoolExecutor(2),
        lambda: concurrent.futures.ProcessPoolExecutor(2, mp_context=SPAWN),
        lambda: Processes(2),
    ],
    ids=["threads", "pool", "processes"],
)
def test_any_executor_gives_the_same_reports(executor, tmp_path, expected):
    trace = ftlab.Trace.from_arrays(None, [0, 4096] * 500, [4096] * 1000, ["read", "write"] * 500, name="mine")
    with executor() as workers:
        assert reports(ftlab.sweep(GRID, workers, tmp_path)) == expected
        grid = {"workload": trace, "schemes": ["page", "dftl"], "device": DEVICE}
        done = ftlab.sweep(grid, workers, tmp_path)
        assert done.ran == 2 and ftlab.sweep(grid, workers, tmp_path).ran == 0
    alone = ftlab.compare(trace, ["page"], device=DEVICE, threads=1)
    assert timeless(done.report(done.keys[0]).data) == timeless(alone.data)


def test_what_is_stored_is_one_table(tmp_path):
    done = ftlab.sweep(GRID, store=tmp_path)
    frame = ftlab.load(tmp_path)
    assert len(frame) == 6 and frame["run"].n_unique() == 6
    assert frame.filter(frame["plan.schemes"] == "page")["plan.cache"].to_list() == [None, None]
    by_hand = {key: done.report(key).results["response_us.mean"][0] for key in done.keys}
    assert dict(zip(frame["run"], frame["response_us.mean"], strict=True)) == by_hand
    ftlab.sweep(GRID | {"seed": 9}, store=tmp_path)
    assert len(done.load()) == 6 and len(ftlab.load(tmp_path)) == 9
    pytest.importorskip("duckdb")
    relation = ftlab.load(tmp_path, engine="duckdb")
    assert sorted(relation.aggregate("run, max(waf)").fetchall()) == sorted(
        zip(ftlab.load(tmp_path)["run"], ftlab.load(tmp_path)["waf"], strict=True)
    )
    with pytest.raises(ftlab.InputError, match='engine: "pandas" is unknown'):
        ftlab.load(tmp_path, engine="pandas")


def test_failures_are_kept_and_retried_as_asked(tmp_path):
    tries = tmp_path / "tries"
    tries.touch()

    class Moody:
        def __init__(self, path, until):
            self.path, self.until, self.begun = str(path), until, False

        def __call__(self, blocks):
            if not self.begun:
                self.begun = True
                with open(self.path, "a") as file:
                    file.write("x")
                if os.path.getsize(self.path) < self.until:
                    raise RuntimeError("not in the mood")
            return blocks.block[0]

    def grid(until):
        policy = ftlab.victim_policy(Moody(tries, until), name="moody")
        workload = "uniform:requests=20k,reads=0"
        return {"workload": workload, "schemes": "page", "gc": [policy, "greedy"], "device": DEVICE}

    done = ftlab.sweep(grid(5), store=tmp_path / "runs", retries=1)
    assert (done.ran, done.failed) == (1, 1) and tries.stat().st_size == 2
    (failure,) = done.failures
    assert "not in the mood" in failure["message"] and failure["attempts"] == 2 and "moody" in failure["plan"]
    noted = tmp_path / "runs" / "failed" / f"{failure['run']}.json"
    assert "not in the mood" in json.loads(noted.read_text())["traceback"]
    kept = ftlab.sweep(grid(5), store=tmp_path / "runs")
    assert (kept.ran, kept.found, kept.failed) == (0, 1, 1) and tries.stat().st_size == 2
    healed = ftlab.sweep(grid(5), store=tmp_path / "runs", retry_failed=True, retries=9)
    assert (healed.ran, healed.failed) == (1, 0) and tries.stat().st_size == 5
    assert len(ftlab.load(tmp_path / "runs")) == 2


def test_a_plan_that_cannot_run_is_a_failure_with_the_command_lines_words(tmp_path):
    done = ftlab.sweep(GRID | {"schemes": ["page", "dtfl"], "cache": None, "seed": 1}, store=tmp_path)
    assert (done.ran, done.failed) == (1, 1)
    assert 'unknown scheme "dtfl"; did you mean "dftl"?' in done.failures["message"][0]


# Killed


def killed_in_the_middle(grid, log, kill):
    """Kills when a third of the runs have begun; whom, `kill` decides."""
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            if len(begun(log)) >= len(grid["seed"]) // 3:
                time.sleep(0.05)
                kill(int(begun(log)[-1]))
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread, stop


def test_only_the_run_of_a_killed_process_repeats(tmp_path):
    grid, log = logged(tmp_path, 9, "100k")
    victim = []

    def kill(pid):
        victim.append(pid)
        os.kill(pid, signal.SIGKILL)

    with Processes(2) as workers:
        thread, stop = killed_in_the_middle(grid, log, kill)
        done = ftlab.sweep(grid, workers, tmp_path / "runs")
        stop.set()
        thread.join()
    assert victim and (done.ran, done.failed) == (9, 0)
    assert 9 <= len(begun(log)) <= 10
    assert len(ftlab.load(tmp_path / "runs")) == 9
    assert ftlab.sweep(grid, store=tmp_path / "runs").ran == 0 and 9 <= len(begun(log)) <= 10


def test_a_pool_that_breaks_says_so_and_what_was_finished_is_kept(tmp_path):
    grid, log = logged(tmp_path, 9, "100k")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=SPAWN) as workers:
        thread, _ = killed_in_the_middle(grid, log, lambda pid: os.kill(pid, signal.SIGKILL))
        with pytest.raises(ftlab.SweepStopped, match=r"the executor is lost .* of 9 runs are done") as stopped:
            ftlab.sweep(grid, workers, tmp_path / "runs")
        thread.join()
    stored = len(list((tmp_path / "runs").glob("*.parquet")))
    assert stored > 0 and int(re.search(r"(\d+) of 9", str(stopped.value)).group(1)) <= stored
    before = len(begun(log))
    done = ftlab.sweep(grid, store=tmp_path / "runs")
    assert (done.found, done.ran) == (stored, 9 - stored) and len(begun(log)) == before + 9 - stored


def test_a_run_that_kills_its_process_each_time_is_a_failure(tmp_path):
    class Deadly:
        def __call__(self, blocks):
            os._exit(9)

    policy = ftlab.victim_policy(Deadly(), name="deadly")
    pytest.importorskip("cloudpickle")
    with Processes(1) as workers:
        grid = {"workload": "uniform:requests=20k", "schemes": "page", "gc": [policy, "greedy"], "device": DEVICE}
        done = ftlab.sweep(grid, workers, tmp_path)
    assert (done.ran, done.failed) == (1, 1)
    assert "its process died 3 times" in done.failures["message"][0]


def test_interrupted_with_what_was_finished(tmp_path):
    code = f"""
import os, signal, ftlab
def tell(label, done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGINT)
grid = {{"workload": ["zipf:requests=1k", "zipf:requests=2G"], "schemes": "page", "seed": [1, 2], "device": "{DEVICE}"}}
try:
    ftlab.sweep(grid, store="runs", progress=tell)
except ftlab.Interrupted as stopped:
    print(stopped.report)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "4 runs in runs: 2 run now, 0 found, 0 failed", ran.stderr


# Dask


def test_dask_gives_the_same_reports(client, tmp_path, expected):
    done = ftlab.sweep(GRID, client, tmp_path)
    assert done.ran == 6 and reports(done) == expected
    assert ftlab.sweep(GRID, client, tmp_path).ran == 0


def test_only_the_run_of_a_killed_dask_worker_repeats(client, tmp_path):
    grid, log = logged(tmp_path, 9, "100k")
    killed = []

    def kill(pid):
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    thread, stop = killed_in_the_middle(grid, log, kill)
    done = ftlab.sweep(grid, client, tmp_path / "runs")
    stop.set()
    thread.join()
    assert killed and (done.ran, done.failed) == (9, 0)
    assert 9 <= len(begun(log)) <= 10
    assert len(list((tmp_path / "runs").glob("*.parquet"))) == len(ftlab.load(tmp_path / "runs")) == 9
    assert ftlab.sweep(grid, client, tmp_path / "runs").ran == 0 and 9 <= len(begun(log)) <= 10


def test_workers_that_do_not_see_the_store_get_traces_and_give_reports(client, tmp_path, spc, monkeypatch):
    trace = ftlab.Trace.from_arrays(None, [0, 4096] * 500, [4096] * 1000, ["read", "write"] * 500, name="mine")
    grid = {"workload": [trace, spc], "schemes": ["page", "dftl"], "device": "agrawal08:capacity=512MiB"}
    near = reports(ftlab.sweep(grid, store=tmp_path / "near"))
    # A store whose identity workers do not know is one that they do not see.
    begin = Store.begin

    def elsewhere(path):
        store = begin(path)
        store.identity = "another machine's"
        return store

    monkeypatch.setattr(Store, "begin", elsewhere)
    moved = {**grid, "workload": [trace, tmp_path / "moved" / spc.name]}
    (tmp_path / "moved").mkdir()
    os.link(spc, moved["workload"][1])
    far = ftlab.sweep(moved, client, tmp_path / "far")
    monkeypatch.undo()
    assert far.ran == 4 and {key: timeless(far.report(key).data) for key in far.keys} == near


def test_the_command_line_on_a_scheduler_and_two_workers_and_a_cluster_that_vanishes(tmp_path):
    pytest.importorskip("distributed")
    address_file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--port=0", "--host=127.0.0.1", "--dashboard-address=127.0.0.1:0"]
        + [f"--scheduler-file={address_file}"],
        **quiet,
    )
    workers = [
        subprocess.Popen([*dask, "worker", f"--scheduler-file={address_file}", "--nthreads=1", "--no-nanny"], **quiet)
        for _ in range(2)
    ]
    try:
        until = time.monotonic() + 60
        while not address_file.exists() or not address_file.stat().st_size:
            assert time.monotonic() < until
            time.sleep(0.05)
        address = json.loads(address_file.read_text())["address"]
        experiment = tmp_path / "experiment.toml"
        experiment.write_text(
            f'workload = "zipf:requests=2k"\nschemes = ["page", "dftl"]\nseed = [1, 2]\ndevice = "{DEVICE}"\n'
        )
        command = [sys.executable, "-m", "ftlab.sweep", experiment, "--scheduler", address, "--store", "runs"]
        for expected in ("4 run now, 0 found", "0 run now, 4 found"):
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
            assert ran.returncode == 0, ran.stderr
            assert f"4 runs in runs: {expected}" in ran.stdout
            assert "Dask's dashboard: http://127.0.0.1:" in ran.stderr
        text = experiment.read_text()
        experiment.write_text(text.replace("2k", "500k").replace("[1, 2]", str(list(range(40)))))
        running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        while len(list((tmp_path / "runs").glob("*.parquet"))) < 6:
            assert running.poll() is None
            time.sleep(0.02)
        scheduler.kill()
        _, told = running.communicate(timeout=120)
        assert running.returncode == 3, told
        assert re.search(r"error: the cluster at tcp://127.0.0.1:\d+ is lost .* of 80 runs are done and stored", told)
        missing = subprocess.run(command + ["--timeout=1"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert missing.returncode == 2 and f"nobody answers at {address}" in missing.stderr
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


# The command line


def test_an_experiment_file(tmp_path, spc):
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        f'trace = "{spc.name}"\nschemes = ["page", "dftl"]\ncache = ["8KiB", 16384]\n'
        'device = "agrawal08:capacity=512MiB"\n[set]\ndftl.gc_low = [3, 4]\n'
    )
    command = [sys.executable, "-m", "ftlab.sweep", experiment, "--processes=1"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "5 runs in runs: 5 run now, 0 found, 0 failed", ran.stderr
    assert ran.stderr == ""
    experiment.write_text(experiment.read_text().replace('"dftl"', '"dtfl"'))
    ran = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1 and 'did you mean "dftl"' in ran.stderr


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (None, [], "cannot read"),
        ("seed = ", [], "e.toml: "),
        ('trace = "none.spc"', [], "there is no file"),
        ('trace = "a"\nworkload = "b"', [], "cannot be given together"),
        ("sead = 1", [], 'did you mean "seed"'),
        ("seed = 1", ["--retries=-1"], "no number from 0 on"),
        ("seed = 1", ["--processes=0"], "no number from 1 on"),
        ("seed = 1", ["--store=e.toml"], "cannot write to"),
        ("seed = 1", ["--store=."], "is no store of a sweep"),
    ],
)
def test_bad_experiments(tmp_path, text, flags, message, monkeypatch, capsys):
    from ftlab.sweep.__main__ import main

    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "e.toml").write_text(text)
    try:
        code = main(["e.toml", *flags])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2 and message in capsys.readouterr().err


# Stores


def test_a_store_of_another_version_is_refused(tmp_path):
    ftlab.sweep(GRID | {"schemes": "page"}, store=tmp_path)
    told = json.loads((tmp_path / "store.json").read_text())
    (tmp_path / "store.json").write_text(json.dumps(told | {"ftlab": "0.0.1"}))
    for call in (lambda: ftlab.sweep(GRID, store=tmp_path), lambda: ftlab.load(tmp_path)):
        with pytest.raises(ftlab.InputError, match=r"was written by ftlab 0\.0\.1 .* name another store"):
            call()
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(ftlab.InputError, match="store.json cannot be read"):
        ftlab.load(tmp_path)


def test_a_worker_of_another_version_is_refused(tmp_path, monkeypatch):
    from ftlab.sweep import work

    with monkeypatch.context() as patch:
        patch.setattr(work, "_native", type("Other", (), {"VERSION": "0.0.1"}))
        with pytest.raises(ftlab.SweepStopped, match=r"process \d+: it has ftlab 0\.0\.1, the sweep was begun by"):
            ftlab.sweep(GRID, store=tmp_path)
    assert ftlab.sweep(GRID, store=tmp_path).ran == 6


def test_bad_stores_and_executors(tmp_path):
    with pytest.raises(ftlab.InputError, match="is no store of a sweep"):
        ftlab.load(tmp_path)
    with pytest.raises(ftlab.InputError, match="executor: int is none"):
        ftlab.sweep(GRID, 4, store=tmp_path / "a")
    with pytest.raises(ftlab.InputError, match="retries: -1 is no number of times"):
        ftlab.sweep(GRID, store=tmp_path / "a", retries=-1)
    ftlab.sweep({"schemes": "dtfl"}, store=tmp_path / "b")
    with pytest.raises(ftlab.InputError, match="b has no results: no run has ended well"):
        ftlab.load(tmp_path / "b")
    done = ftlab.sweep(GRID, store=tmp_path / "c")
    (tmp_path / "c" / f"{done.keys[0]}.parquet").write_bytes(b"broken")
    with pytest.raises(ftlab.InputError, match=f"{done.keys[0]}.parquet is no run"):
        ftlab.load(tmp_path / "c")


def test_a_cluster_that_all_workers_leave_is_given_up(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(sys.modules["ftlab.sweep.executors"], "PATIENCE", 2.0)
    with local_cluster(distributed, 1) as cluster, distributed.Client(cluster) as client:
        grid = {"workload": "uniform:requests=200k", "schemes": "page", "seed": range(200), "device": DEVICE}
        leaving = []

        def tell(label, done, total):
            if done == 1 and label == "sweeping" and not leaving:
                leaving.append(threading.Thread(target=cluster.scale, args=(0,)))
                leaving[0].start()

        with pytest.raises(ftlab.SweepStopped, match=r"no workers any more, for 2 s.*of 200 runs are done and stored"):
            ftlab.sweep(grid, client, store=tmp_path, progress=tell)
        leaving[0].join()
    assert 0 < len(ftlab.load(tmp_path)) < 200

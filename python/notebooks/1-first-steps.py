# %% [markdown]
# # First steps, in ten minutes
#
# `ftlab` measures flash translation layers: which pages of flash are read, programmed and erased for a host's
# requests, what the requests wait for, and how the flash wears. This notebook compares three schemes under one
# workload.
#
# `pip install '.[all]'` from a clone installs everything. The runs below are short, so that the notebook takes
# seconds; with a release build, a million requests take about a second per scheme.
# %%
import ftlab

ftlab.schemes()
# %% [markdown]
# A workload is a trace file, a generator or a twin of a published trace. Here 70 % of 20,000 requests write, to
# addresses whose popularity follows Zipf's law. The device is small: 64 MiB, with a fifth of spare space. Every page
# is written once in random order before counting starts.
# %%
workload = "zipf:theta=0.9,requests=20k,reads=0.3"
device = "agrawal08:capacity=64MiB,spare=20%"
report = ftlab.compare(workload, schemes=["page", "dftl", "fast"], device=device, fill="random", series="200ms", seed=7)
report
# %% [markdown]
# The report is a table with sentences, and it is data. `results` has a row per run, with the columns of
# `ftlab compare --csv`; Polars, pandas and DuckDB take it as it is.
# %%
report.results.to_polars().select("scheme", "response_us.mean", "response_us.p99", "waf", "flash.erases")
# %% [markdown]
# Most requests are quick, and a few wait for a collection. The axis stretches towards those.
# %%
from ftlab import plots

ax = plots.response_cdf(report)
# %% [markdown]
# Each flash command has a cause, so that the time of the flash has one too. The map of DFTL lies on flash: it loads and
# writes translation pages. FAST merges blocks.
# %%
ax = plots.flash_time(report)
# %% [markdown]
# The same for the time of a request: its own commands, and those of others that it waited behind.
# %%
ax = plots.response_parts(report)
# %% [markdown]
# Wear, and responses over simulated time.
# %%
ax = plots.wear(report)
# %%
ax = plots.series(report, "p99_us")
# %% [markdown]
# How much cache does DFTL need? `cache` takes a list. `dftl` runs once for each size, `page`, which has no cache, once.
# %%
ftlab.compare(workload, schemes=["page", "dftl"], cache=["2KiB", "8KiB", "32KiB"], device=device, seed=7)
# %% [markdown]
# The report can be kept; it is the JSON of the command line.
# %%
import tempfile
from pathlib import Path

path = Path(tempfile.mkdtemp()) / "report.json"
report.save(path)
assert ftlab.Report.load(path).results == report.results
# %% [markdown]
# Next: your own trace, a victim policy in ten lines, a scheme in Python, a figure of a paper, a sweep.

# %% [markdown]
# # Your own trace
#
# Requests come from a file in any of the known formats (`ftlab.Trace.open`), or from arrays. Here numpy makes them: a
# log that is appended to, and a database that is updated at random, both at times of their own.
# %%
import numpy as np

import ftlab

random = np.random.default_rng(7)
count = 8_000
time_ns = np.cumsum(random.exponential(400_000, count)).astype(np.int64)
appends = random.random(count) < 0.3
offset = np.where(appends, np.cumsum(appends) * 8192 % (16 << 20), (16 << 20) + random.integers(0, 8192, count) * 4096)
size = np.where(appends, 8192, 4096)
reads = ~appends & (random.random(count) < 0.5)
trace = ftlab.Trace.from_arrays(time_ns, offset, size, np.where(reads, "read", "write"), name="log and database")
trace
# %% [markdown]
# What is it like? Times are nanoseconds that never fall, offsets and sizes are bytes. Whatever is wrong is said with
# its place: try a negative time.
# %%
profile = trace.profile
{key: profile[key] for key in ("requests", "reads", "writes", "span_bytes", "footprint_bytes", "duration_ns")}
# %% [markdown]
# A trace is a table to Polars, pandas, DuckDB and pyarrow, and any table with these columns is a trace.
# %%
table = trace.to_polars()
late = ftlab.Trace.from_arrays(table.filter(table["time_ns"] > table["time_ns"].median()))
assert len(late) == count // 2
table.head()
# %% [markdown]
# Requests arrive at their own times. A load that the device cannot serve makes queues grow: the report says so. With
# `time_scale=0.5` the same requests come twice as fast.
# %%
device = "agrawal08:capacity=64MiB,spare=20%"
report = ftlab.compare(trace, ["page", "dftl", "fast"], device=device, fill="random", seed=7)
report
# %%
from ftlab import plots

ax = plots.response_parts(report)
# %% [markdown]
# What single requests met is in a file that `per_request` writes. It gives the exact curve.
# %%
import tempfile
from pathlib import Path

requests = Path(tempfile.mkdtemp()) / "requests.csv"
alone = ftlab.compare(trace, ["page"], device=device, fill="random", seed=7, per_request=requests)
ax = plots.response_cdf(alone, {"page": requests})
# %% [markdown]
# A trace file is used the same way: `ftlab.compare("Financial1.spc", …)`. Published traces whose files you lack have
# twins, `ftlab.twin("financial1")`, and `ftlab.twin_of("mine.spc")` imitates a file. With a release build the five
# million requests of Financial1 take a few seconds per scheme.

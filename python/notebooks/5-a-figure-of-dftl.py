# %% [markdown]
# # A figure of the DFTL paper, reproduced
#
# `ftlab.reproduce("dftl/figure-6")` measures what Figure 6 of the DFTL paper published: how many look-ups hit the
# mapping cache, what translation costs, how much more FAST erases. Whole, with 4 to 16 GiB of flash and half a
# million requests of three workloads, it takes minutes on a workstation.
# %%
import os
import tempfile
from pathlib import Path

import ftlab
from ftlab import plots

WHOLE = bool(os.environ.get("FTLAB_WHOLE"))
ftlab.reproduce("dftl", list=True)
# %% [markdown]
# Without `FTLAB_WHOLE` in the environment, a small experiment stands in: the Financial workload alone, at 20,000
# requests on 128 MiB. An experiment is two files: the paper's set-up, and a figure with what was published.
# %%
directory = Path(tempfile.mkdtemp())
(directory / "dftl").mkdir()
(directory / "dftl" / "paper.toml").write_text("""
title = "Gupta, Kim, Urgaonkar: DFTL, on a small device"
device = "dftl-paper:capacity=128MiB"
requests = "20k"
fill = "sequential"
partial = "ignore"
out-of-range = "fold"
assumptions = ["128 MiB and 20,000 requests: a picture of the method and not of the paper's device."]
[set]
gc = "cost-benefit"
victims = "plain"
gc-spread = false
init-tps = true
[[workload]]
name = "Financial"
traces = ["Financial1.spc"]
twin = "twin:financial1-s4"
set = { cache-bytes = "16KiB" }
""")
(directory / "dftl" / "figure-6.toml").write_text("""
title = "Figure 6: what collection and translation cost"
source = "{dftl}, Figure 6, section 5.2"
says = "About 63 % of the look-ups of the Financial trace hit; FAST erases about three times as much as DFTL."
workloads = ["Financial"]
configuration = [{ name = "page" }, { name = "dftl" }, { name = "fast", set = { sw-other = "psu" } }]
[[row]]
label = "hit ratio"
measure = "cache.hit_ratio"
unit = "%"
of = "dftl"
published = { Financial = 63 }
[[row]]
label = "erases, fast to dftl"
measure = "flash.erases"
relation = "ratio"
unit = "times"
of = "fast"
against = "dftl"
published = { Financial = 3 }
""")
found = ftlab.reproduce("dftl/figure-6", experiments=None if WHOLE else directory)
found
# %% [markdown]
# Published against measured: an open square is the paper's figure, a dot is ours.
# %%
ax = plots.published(found, "hit ratio")
# %%
ax = plots.published(found, "erases, fast to dftl")
# %% [markdown]
# Figure 11 asks how the hit ratio and the response grow with RAM. A sweep over the cache answers it, here again
# small, with three seeds. With `requests=500k` and `capacity=4GiB` it is the paper's region.
# %%
grid = {
    "workload": "twin:financial1-s4,requests=5k",
    "schemes": ["page", "dftl"],
    "cache": ["8KiB", "16KiB", "64KiB", "256KiB"],
    "device": "dftl-paper:capacity=64MiB",
    "out_of_range": "fold",
    "partial": "ignore",
    "seed": [1, 2, 3],
}
done = ftlab.sweep(grid, store=directory / "runs")
done
# %%
table = done.load()
ax = plots.sweep(table, "plan.cache", "response_us.mean", "plan.schemes")
# %%
dftl = table.filter(table["plan.schemes"] == "dftl")
ax = plots.sweep(dftl, "plan.cache", "cache.hit_ratio", "plan.schemes")

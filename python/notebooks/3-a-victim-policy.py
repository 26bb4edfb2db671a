# %% [markdown]
# # A victim policy in ten lines
#
# A collection frees a block: it copies the block's live pages and erases it. Which block, is the victim policy's
# choice. Written in Python, a policy gets numpy arrays with an entry per candidate (`block`, `live`, `erases`, `age`)
# and returns one of the blocks.
# %%
import numpy as np

import ftlab


@ftlab.victim_policy(name="cost-age-wear")
def cost_age_wear(blocks):
    utilisation = blocks.live / blocks.pages_per_block
    benefit = (1.0 - utilisation) / (1.0 + utilisation) * np.sqrt(1.0 + blocks.age)
    worn = blocks.erases - blocks.erases.min()
    return blocks.block[np.argmax(benefit / (1.0 + worn))]


# %% [markdown]
# It runs beside those of the laboratory, under any scheme that has victims. The workload writes few addresses often and
# most of them seldom.
# %%
report = ftlab.compare(
    "zipf:theta=1.1,requests=30k,reads=0",
    schemes=["page", "dftl"],
    gc=["greedy", "cost-benefit", cost_age_wear],
    device="agrawal08:capacity=64MiB,spare=20%",
    fill="random",
    seed=7,
)
report
# %% [markdown]
# Greedy leaves blocks alone whose pages are seldom written, and so wears the others. A steeper curve is more even wear.
# %%
from ftlab import plots

ax = plots.wear(report)
# %%
report.results.to_polars().select("scheme", "params.gc", "waf", "erase_count.stdev", "erase_count.max")
# %% [markdown]
# A policy that keeps something between calls is an object with `__call__`. Every run begins with a copy of it. A
# policy that raises, or returns a block that is no candidate, ends the run with an error that names the request.
# %%
@ftlab.victim_policy(name="broken")
def broken(blocks):
    return -1


try:
    ftlab.compare("uniform:requests=30k,reads=0", ["page"], gc=broken, device="agrawal08:capacity=64MiB,spare=20%")
except Exception as error:
    print(f"{type(error).__name__}: {error}", *getattr(error, "__notes__", []), sep="\n")
else:
    raise AssertionError("the policy's answer went unnoticed")
# %% [markdown]
# This notebook takes seconds. In a run of millions of requests a policy in Python is called once per collection, so
# its cost is that of its own lines: try `%timeit` on them with arrays of a thousand entries.

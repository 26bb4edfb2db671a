# %% [markdown]
# # A sweep of 200 runs on Dask
#
# Three schemes with three sizes of cache and one without a cache, under ten seeds and two workloads. With a release
# build a run takes about half a second, and the sweep about a minute on two idle cores; the dashboard shows the runs.
# Tests do not run this notebook.
# %%
import ftlab
from distributed import Client, LocalCluster
from ftlab import plots

cluster = LocalCluster(threads_per_worker=1)
client = Client(cluster)
print(client.dashboard_link)
# %% [markdown]
# On a cluster, the client is made by `dask-jobqueue` or `dask-kubernetes` (docs/sweeps.md). Nothing else changes.
# %%
grid = {
    "workload": ["twin:financial1,requests=500k", "zipf:theta=0.9,requests=500k,reads=0.3"],
    "schemes": ["page", "dftl", "tpftl", "sftl"],
    "cache": ["32KiB", "64KiB", "128KiB"],
    "device": "agrawal08:capacity=1GiB",
    "out_of_range": "fold",
    "seed": range(1, 11),
}
done = ftlab.sweep(grid, client, store="runs")
done
# %% [markdown]
# A second sweep finds all of them. Interrupt the kernel in the middle, kill a worker: what was finished is there, and
# this cell does the rest.
# %%
ftlab.sweep(grid, client, store="runs")
# %%
table = ftlab.load("runs")
plan = ["plan.workload", "plan.schemes", "plan.cache"]
table.select(*plan, "response_us.mean", "waf").group_by(plan, maintain_order=True).mean()
# %%
financial = table.filter(table["plan.workload"].str.starts_with("twin"))
ax = plots.sweep(financial, "plan.cache", "response_us.mean", "plan.schemes")
# %%
ax = plots.sweep(financial, "plan.cache", "waf", "plan.schemes", kind="heat")
# %%
client.close()
cluster.close()

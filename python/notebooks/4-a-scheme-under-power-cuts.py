# %% [markdown]
# # A scheme in Python, under power cuts
#
# A whole translation layer can be written in Python. The same simulator measures it, and the same power cuts attack
# it as the built-in ones. `python/examples/page_map.py` is a page map with mounting; here is its text.
# %%
import inspect
import sys

import ftlab

sys.path.insert(0, "../examples")
from broken_page_map import BrokenPageMap
from page_map import PageMap

print(inspect.getsource(PageMap))
# %% [markdown]
# It runs beside `page`, which does the same in Rust. The device has one die, so that both take the same blocks: the
# figures are equal.
# %%
device = "agrawal08:capacity=64MiB,spare=12.5%,channels=1,chips=1,dies=1,planes=1"
report = ftlab.compare("uniform:requests=10k,reads=0.2", ["page", PageMap], device=device, fill="random", seed=7)
page, ours = report.data["results"]
assert page["flash"] == ours["flash"] and page["response_us"] == ours["response_us"]
report
# %% [markdown]
# One device in hand shows what single requests do.
# %%
ssd = ftlab.Device(PageMap)
for version in range(3):
    ssd.write(5, f"version {version}".encode())
print(ssd.commands())
ssd.cut_power()
print(ssd.mount())
assert ssd.read(5).startswith(b"version 2")
# %% [markdown]
# Now the power is cut at the commands of random requests, also during mounting. After each cut the device is mounted,
# and what it reads is compared with what the host was promised. A full check makes 4,000 cuts and more while
# mounting, which takes a minute or two; this one has two seeds of 100 cuts.
# %%
found = ftlab.check(PageMap, seeds=2, cuts=100)
assert found.passed
found
# %% [markdown]
# A scheme with a bug: after an erase that was cut short a block can look blank, and this page map trusts it.
# %%
print(inspect.getsource(BrokenPageMap))
broken = ftlab.check(BrokenPageMap, seeds=2, cuts=100)
assert not broken.passed
broken
# %% [markdown]
# A failing case replays, line by line.
# %%
print("\n".join(ftlab.replay(BrokenPageMap, broken.failures["replay"][0])[-12:]))

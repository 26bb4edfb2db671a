"""The package as such: every native name has a wrapper, every public name an example, stubs are fresh, imports lazy."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ftlab
from ftlab import _native

PACKAGE = Path(ftlab.__file__).parent
MODULES = [name for _, name, _ in pkgutil.iter_modules([str(PACKAGE)]) if name != "_native"]


def sources():
    return {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")}


def public(module):
    return [name for name in dir(module) if not name.startswith("_")]


def test_every_native_name_has_a_wrapper():
    text = "\n".join(sources().values())
    unused = [name for name in public(_native) if not re.search(rf"\b_native\.{name}\b", text)]
    assert unused == []


def test_every_public_name_is_exported_and_has_an_example():
    assert sorted(ftlab.__all__) == ftlab.__all__
    for name in ftlab.__all__:
        thing = getattr(ftlab, name)
        if name.startswith("__"):
            continue
        assert ">>> " in (inspect.getdoc(thing) or ""), f"{name} has no example"


@pytest.mark.parametrize("module", ["ftlab", *(f"ftlab.{name}" for name in MODULES)])
def test_examples_run(module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_import_brings_no_extra_along_and_is_quick():
    code = """
import sys, time
begin = time.perf_counter()
import ftlab
took = time.perf_counter() - begin
extras = {"numpy", "pyarrow", "polars", "pandas", "matplotlib", "dask", "distributed", "tqdm"}
print(took, *(extras & set(sys.modules)))
"""
    times = []
    for _ in range(3):
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        took, *extras = ran.stdout.split()
        assert extras == []
        times.append(float(took))
    assert min(times) < 0.5  # 0.1 s on an idle machine


def test_names_of_stubs_are_those_of_the_module():
    stub = (PACKAGE / "_native.pyi").read_text(encoding="utf-8")
    stubbed = set(re.findall(r"^(?:def |class )?(\w+)(?=[(:])", stub, re.MULTILINE)) - {"__getattr__"}
    assert stubbed == set(public(_native))
    for name in stubbed:
        thing = getattr(_native, name)
        if inspect.isclass(thing):
            body = re.search(rf"^class {name}\b.*?(?=^\S|\Z)", stub, re.MULTILINE | re.DOTALL)
            methods = set(re.findall(r"^    def (\w+)", body.group(0), re.MULTILINE))
            own = {method for method in vars(thing) if not method.startswith("__")}
            assert own <= methods, f"{name} lacks {own - methods}"


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()

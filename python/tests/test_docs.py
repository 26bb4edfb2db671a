"""The Python of the pages runs, with few requests."""

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

import ftlab

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python" / "examples"))

from page_map import PageMap  # noqa: E402

COMPARE = ftlab.compare
FEW = {"limit": "2k", "device": "agrawal08:page=4KiB,capacity=64MiB,spare=20%"}


def run(code, names):
    """Runs a fence, statement by statement. One with a comment `raises ftlab.X` does."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        text = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        expected = re.search(r"# raises ftlab\.(\w+)", text)
        compiled = compile(ast.Module([statement], []), "a page", "exec")
        if expected:
            with pytest.raises(getattr(ftlab, expected.group(1))):
                exec(compiled, names)
        else:
            exec(compiled, names)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/start.md", "docs/python.md"])
def test_fences(page, monkeypatch, tmp_path):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ftlab, "compare", lambda *args, **keys: COMPARE(*args, **(FEW | keys)))
    monkeypatch.setattr(ftlab, "check", functools.partial(ftlab.check, seeds=2, cuts=40, operations=60))
    fences = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert fences
    names = {"ftlab": ftlab, "PageMap": PageMap}
    for fence in fences:
        run(fence, names)

#!/usr/bin/env python3
"""Puts the pages of the site together, builds it, and looks at what came out.

    site.py FTLAB BUILD

FTLAB is the program, which writes the reference; BUILD is a directory with a virtual environment `venv-site` that has
mkdocs-material, and with `iframe-worker.js`. The pages go to BUILD/site-src, the site to BUILD/site.

Pages of docs/ are copied as they are. A link to a file that is no page of the site becomes the name of that file. Pages
that the program or the sources describe better are made here: commands, schemes, policies, devices, formats, recordings,
the keys of a report, and the Python package."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "python/notebooks/README.md": "notebooks.md",
}
STYLE = """\
/* A listing of 100 columns fits beside the navigation. Wide tables scroll by themselves, and names do not break. */
.md-grid { max-width: 76rem; }
.md-typeset pre > code { font-size: 0.58rem; white-space: pre; }
.md-typeset table:not([class]) { font-size: 0.66rem; }
.md-typeset table:not([class]) td, .md-typeset table:not([class]) th { padding: 0.4em 0.8em; }
.md-typeset table:not([class]) td code { word-break: normal; white-space: nowrap; }
"""


def pages() -> dict[str, str]:
    """Pages of the repository, and where they stand in the site."""
    found = {f"docs/{page.relative_to(ROOT / 'docs')}": str(page.relative_to(ROOT / "docs"))
             for page in sorted((ROOT / "docs").rglob("*.md"))}
    return PAGES | found


def relink(text: str, source: str, places: dict[str, str]) -> str:
    """Links of a page as the site has them. What is no page is named instead."""
    here = Path(places[source]).parent

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group(0)
        path, _, anchor = target.partition("#")
        path = os.path.normpath(Path(source).parent / path)
        if path in places:
            target = os.path.relpath(places[path], here) + (f"#{anchor}" if anchor else "")
            return f"{image}[{label}]({target})"
        if image:
            return f"![{label}]({os.path.relpath(Path(path).relative_to('docs'), here)})"
        return f"`{path}`" if label.strip("`") in path else f"{label} (`{path}`)"

    out, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        # A Markdown list that follows a line of text needs a blank line in between here.
        out.append(line if fenced else re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, line))
    return "\n".join(blank_before_lists(out)) + "\n"


def blank_before_lists(lines: list[str]) -> list[str]:
    """GitHub begins a list or a table right behind a paragraph; Python's Markdown wants a blank line."""
    out: list[str] = []
    fenced = False
    for line in lines:
        before = out[-1] if out else ""
        starts = re.match(r"(\*|-|\d+\.) ", line) is not None
        inside = re.match(r"(\*|-|\d+\.) |\s", before) is not None
        if not fenced and starts and before and not inside:
            out.append("")
        out.append(line)
        fenced ^= line.lstrip().startswith("```")
    # What belongs to a list item is indented by four blanks.
    return out


def collect(into: Path) -> None:
    places = pages()
    for source, place in places.items():
        target = into / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(relink((ROOT / source).read_text(encoding="utf-8"), source, places), encoding="utf-8")
    for picture in (ROOT / "docs").rglob("*.png"):
        target = into / picture.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)


RUNS = (
    "--workload zipf:requests=20k,reads=0.3 --schemes page,dftl,lsftl,scftl,fast,superblock --series 1s --mount-cost "
    "--until mean-erases=1",
    "--schemes page --flow zipf:requests=5k@closed:2 --flow uniform:requests=5k@closed:2 --scheduler in-order",
    "--workload zipf:requests=20k,arrival=poisson,rate=500 --schemes page --buffer fab:1MiB --repeat 2 --idle-gc 1ms "
    "--set page.wear-levelling=static --set page.ecc=differentiated",
)
# Families of keys that are described elsewhere, each as one row.
FAMILIES = {
    "device": ("as each key says", "the device as the run had it: [devices](../devices.md)"),
    "run": ("as each key says", "what `compare` was told: [metrics](../metrics.md#run)"),
    "results[].params": ("as each parameter says", "the parameters of the scheme: [schemes](schemes/index.md)"),
    "results[].repeats.metrics": ("as the metric", "`mean` over the runs, and `half_width_95`, half the width of its 95 % "
                                  "confidence interval: [metrics](../metrics.md#repeats)"),
    "results[].sram": ("bytes", "controller RAM of each structure: [accounting](../accounting.md)"),
}
PARTS = {
    "p50": "the median", "p95": "the 95th percentile", "p99": "the 99th percentile", "p999": "the 99.9th percentile",
    "mean": "the mean", "max": "the largest", "stdev": "the population's standard deviation", "min": "the least",
    "half_width_95": "half the width of the 95 % confidence interval of the mean over seeds",
    "schema": "version of the report's layout",
}
UNITS = (("_us", "µs"), ("CAUSE", "µs"), ("_ns", "ns"), ("_bytes", "bytes"), ("bytes", "bytes"), ("_seconds", "s"), ("seconds", "s"),
         ("_hours", "h"), ("_ratio", "ratio"), ("_share", "share"), ("_cycles", "P/E cycles"), ("iops", "1/s"),
         ("_percent", "%"), ("percent", "%"), ("waf", "ratio"), ("war", "ratio"), ("t_pc", "%"), ("slowdown", "ratio"))


def unit(path: list[str], value: object) -> str:
    if path[-1] == "us":
        return "µs"
    for part in reversed(path):
        for end, name in UNITS:
            if part.removesuffix("[]").endswith(end) and not (part == "CAUSE" and part != path[-1]):
                return name
    if isinstance(value, bool):
        return "yes or no"
    return {str: "text", int: "count", float: "number"}.get(type(value), "")


def report_keys(ftlab: Path, into: Path, scratch: Path) -> str:
    """Every key that reports have, with unit and definition. A key that no page defines is an error."""
    keys: dict[str, object] = {}

    def walk(value: object, path: str) -> None:
        path = re.sub(r"(\.by_cause|\.own|\.waited_for)\.\w+", r"\1.CAUSE", path)
        path = re.sub(r"(_le_|_of_)\d+", r"\1N", path)
        if path in FAMILIES:
            keys.setdefault(path, None)
        elif isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, path + "[]")
        else:
            keys.setdefault(path, value)

    for number, run in enumerate(RUNS):
        out = scratch / f"keys-{number}.json"
        device = "--device agrawal08:capacity=128MiB"
        subprocess.run([ftlab, "compare", *device.split(), *run.split(), "--json", out], check=True, capture_output=True)
        walk(json.loads(out.read_text(encoding="utf-8")), "")
    rows: list[tuple[str, str]] = []
    described = ["metrics.md", "accounting.md", "buffers.md", "error-correction.md", "scheduling.md"]
    for page in [into / page for page in described] + sorted((into / "reference/schemes").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            cells = re.split(r"(?<!\\)\|", line)
            if len(cells) > 3 and "`" in cells[1]:
                definition = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cells[2].strip())
                rows.append((cells[1], definition))
    def definition(path: str) -> str | None:
        parts = path.replace("[]", "").split(".")
        for start in range(len(parts) - (parts[-1] in PARTS and len(parts) > 1)):
            name = re.escape(".".join(parts[start:]))
            for first, text in rows:
                forms = (first, re.sub(r"_\d+`", "_N`", first))
                if any(re.search(rf"[`.]{name}`", form) for form in forms):
                    return text
        if parts[-1] in PARTS:
            upper = definition(".".join(parts[:-1])) if len(parts) > 1 else None
            return f"{PARTS[parts[-1]]}{f' of: {upper}' if upper else ''}"
        return None

    table, lost = [], []
    for path, value in sorted(keys.items()):
        if path in FAMILIES:
            what, text = FAMILIES[path]
            table.append(f"| `{path}.*` | {what} | {text} |")
            continue
        text = definition(path)
        if text is None:
            lost.append(path)
        table.append(f"| `{path}` | {unit(path.split('.'), value)} | {text} |")
    if lost:
        sys.exit("no page defines these keys of a report: " + ", ".join(lost))
    return (
        "# Report keys\n\nThe keys of `ftlab compare --json`, taken from reports that were made when this site was built. "
        "`[]` stands for each entry of a list. [Metrics](../metrics.md) has the definitions in full, and says when a key is "
        "absent.\n\n| key | unit | definition |\n|---|---|---|\n" + "\n".join(table) + "\n"
    )


def python_reference() -> str:
    """The public names of the package, from its sources: signature and docstring."""
    package = ROOT / "python/ftlab"
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == "__all__" for to in node.targets):
            names = [ast.literal_eval(item) for item in node.value.elts if isinstance(item, ast.Constant)]
    found: dict[str, ast.AST] = {}
    for source in sorted(package.rglob("*.py")) + sorted(package.rglob("*.pyi")):
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names:
                found.setdefault(node.name, node)

    def signature(node: ast.FunctionDef) -> str:
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}({ast.unparse(node.args)}){returns}"

    def text(node: ast.AST) -> str:
        words = re.sub(r"``([^`]+)``", r"`\1`", ast.get_docstring(node) or "")
        # Examples run until a blank line.
        return re.sub(r"(?m)^(>>>.*(?:\n.+)*)", r"```pycon\n\1\n```", words)

    page = ["# Python", "", "What `import ftlab` offers, from the sources. [The package](../python.md) shows how it is used.", ""]
    for name in sorted(found, key=str.lower):
        node = found[name]
        head = signature(node) if isinstance(node, ast.FunctionDef) else f"class {name}"
        page += [f"## {name}", "", "```python", head, "```", "", text(node), ""]
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    about = " ".join((ast.get_docstring(method) or "").split(">>>")[0].replace("``", "`").split())
                    page += [f"- `{signature(method)}`  ", f"    {about}"]
            page.append("")
    assert len(found) > 10, "the package's names were not found"
    return "\n".join(page) + "\n"


class Requests(HTMLParser):
    """What a page of the site loads, and what it links to."""

    LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in ("canonical", "next", "prev"):
            return
        target = values.get(self.LOADS.get(tag, ""))
        if target:
            self.loads.append(target)


def examine(site: Path) -> None:
    """Holds the site to what it promises: everything that a page loads lies beside it."""
    faults = []
    found = sorted(site.rglob("*.html"))
    for page in found:
        parser = Requests()
        text = page.read_text(encoding="utf-8")
        parser.feed(text)
        for target in parser.loads:
            if target.startswith("data:"):
                continue
            if re.match(r"[a-z]+:|//", target):
                faults.append(f"{page.relative_to(site)} loads {target}")
            elif page.name != "404.html" and not (page.parent / target.split("#")[0].split("?")[0]).exists():
                faults.append(f"{page.relative_to(site)} loads {target}, which is not there")
    for sheet in site.rglob("*.css"):
        for target in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", sheet.read_text(encoding="utf-8")):
            if re.match(r"(https?:)?//", "".join(target)):
                faults.append(f"{sheet.relative_to(site)} loads {''.join(target)}")
    index = site / "index.html"
    if "iframe-worker" not in index.read_text(encoding="utf-8") or not (site / "search/search_index.js").exists():
        faults.append("pages cannot be searched offline")
    if len(found) < 50:
        faults.append(f"{len(found)} pages are too few")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(found)} pages in {site}, none of which loads anything from elsewhere")


def main() -> None:
    ftlab, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    source, site = build / "site-src", build / "site"
    shutil.rmtree(source, ignore_errors=True)
    collect(source)
    (source / "assets").mkdir()
    shutil.copyfile(build / "iframe-worker.js", source / "assets/iframe-worker.js")
    (source / "assets/site.css").write_text(STYLE, encoding="utf-8")
    subprocess.run([ftlab, "reference", source / "reference"], check=True, stdout=subprocess.DEVNULL)
    for page in (source / "reference").rglob("*.md"):
        page.write_text("\n".join(blank_before_lists(page.read_text(encoding="utf-8").splitlines())) + "\n", encoding="utf-8")
    (source / "reference/report-keys.md").write_text(report_keys(ftlab, source, build), encoding="utf-8")
    (source / "reference/python.md").write_text(python_reference(), encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    schemes = sorted(page.stem for page in (source / "reference/schemes").glob("*.md") if page.stem != "index")
    listed = "".join(f"          - {name}: reference/schemes/{name}.md\n" for name in schemes)
    line = "      - Schemes: reference/schemes/index.md\n"
    assert line in config
    nested = f"      - Schemes:\n          - All: reference/schemes/index.md\n{listed}"
    places = f"docs_dir: {source}\nsite_dir: {site}\n"
    (build / "mkdocs.yml").write_text(config.replace(line, nested) + places, encoding="utf-8")
    subprocess.run(
        [build / "venv-site/bin/mkdocs", "build", "--quiet", "--strict", "--config-file", build / "mkdocs.yml"],
        check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    examine(site)


if __name__ == "__main__":
    main()

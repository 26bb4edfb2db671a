"""Makes the notebooks from the plain sources beside it: `python make.py`. A source has cells as editors know them:
`# %%` begins code, `# %% [markdown]` text in comments. Notebooks are kept without outputs; a test says whether they are
fresh."""

import re
from pathlib import Path

import nbformat

HERE = Path(__file__).parent


def sources():
    """The plain sources."""
    return sorted(path for path in HERE.glob("*.py") if path.name != "make.py")


def notebook(source):
    """The text of a source's notebook."""
    cells = []
    for number, part in enumerate(re.split(r"^# %%", source.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]):
        head, _, body = part.partition("\n")
        body = body.strip("\n")
        if head.strip() == "[markdown]":
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
            cell = nbformat.v4.new_markdown_cell(body)
        else:
            cell = nbformat.v4.new_code_cell(body)
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata)) + "\n"


if __name__ == "__main__":
    for source in sources():
        source.with_suffix(".ipynb").write_text(notebook(source), encoding="utf-8")
        print(source.with_suffix(".ipynb").name)

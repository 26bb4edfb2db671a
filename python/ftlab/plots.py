"""Plots of reports, sweeps and reproductions, in one style that is readable in grey (extra ``plots``).

Each function draws on ``ax``, or on axes of its own, and returns them: ``ax.figure.savefig("plot.png")``.

>>> import ftlab
>>> report = ftlab.compare("zipf:requests=2k", ["page", "dftl"], device="agrawal08:capacity=64MiB,spare=20%")
>>> ftlab.plots.response_cdf(report).get_xlabel()
'response time (µs)'
"""

from __future__ import annotations

import csv
import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from ftlab.errors import InputError
from ftlab.papers import Reproduction
from ftlab.report import Report

# From dark to light, so that grey tells them apart; lines also differ by dashes and markers, areas by hatches.
_COLOURS = ("#1b2a49", "#a8324a", "#2f7f6f", "#d98032", "#6f9fd8", "#c9a9d6", "#9bc26b", "#e8d174")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)), (0, (3, 1)))
_MARKERS = "osD^vPX*"
_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---", "ooo", "+++")
_STYLE = {
    "figure.figsize": (7.2, 4.0),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.dpi": 110,
}
# Quantiles of Student's distribution for 95 %, from one degree of freedom on.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}


def response_cdf(
    report: Report, requests: Mapping[str, str | os.PathLike[str]] | None = None, *, ax: Any = None
) -> Any:
    """The share of requests that are answered within a time; the axis stretches towards the slowest. A report knows
    some percentiles and the maximum, which are marked and joined. ``requests`` has the curve exactly: files that
    ``per_request`` wrote, by the label of their run."""
    known = set(report.labels)
    for label in requests or {}:
        if label not in known:
            raise InputError(f"requests: the report has no run {label}; it has {', '.join(report.labels)}")
    ax = _axes(ax)
    slowest = 0.5
    for index, (label, result) in enumerate(report._labelled()):
        style = _line(index)
        if requests and label in requests:
            times = _times(requests[label])
            shares = [1 - place / len(times) for place in range(len(times))]
            style |= {"marker": "", "drawstyle": "steps-pre"}
        else:
            found = result["response_us"]
            points = [(found[name], 1 - share) for name, share in _PERCENTILES.items() if name in found]
            count = _timed_requests(report)
            # A percentile beyond the number of requests is the maximum again.
            points = [(us, share) for us, share in points if share * count >= 1] + [(found["max"], 1 / count)]
            times, shares = ([point[part] for point in points] for part in (0, 1))
        slowest = min(slowest, *shares)
        ax.plot(times, shares, label=label, **style)
    ax.set(xscale="log", yscale="log", xlabel="response time (µs)", ylabel="requests answered within it")
    ticks = [share for share in (1.0, 0.5, 0.05, 0.01, 1e-3, 1e-4, 1e-5) if share >= slowest / 2]
    ax.set_yticks(ticks, [f"{100 * (1 - share):.6g} %" for share in ticks], minor=False)
    ax.set_yticks([], minor=True)
    ax.set_ylim(1.1, slowest / 1.5)
    return _done(ax, "Response times", report)


def flash_time(report: Report, *, ax: Any = None) -> Any:
    """Where the flash's time went: for each run, seconds by what commands were for."""
    seconds = [(row["run"], row["cause"], row["us"] / 1e6) for row in report.by_cause]
    return _bars(ax, report, seconds, "flash time (s)", "Where the flash's time went")


def response_parts(report: Report, of: str = "mean", *, ax: Any = None) -> Any:
    """Where the response went: for each run, microseconds by what a request's own commands and those that it waited for
    were for. ``of`` is ``mean`` for all requests, ``tail`` for the longest hundredth."""
    if of not in ("mean", "tail"):
        raise InputError(f'of: "{of}" is unknown; give "mean" or "tail"')
    parts = [
        (row["run"], f"{'own' if row['part'] == 'own' else 'behind'}: {row['cause']}", row["us"])
        for row in report.response_by_cause
        if row["of"] == of
    ]
    if not parts:
        raise InputError(f"the report does not say where responses went ({of})")
    title = "Where the response went" + (", of the slowest requests" if of == "tail" else "")
    return _bars(ax, report, parts, "µs of a request", title)


def wear(report: Report, *, ax: Any = None) -> Any:
    """How worn blocks are: the share of blocks that were erased at most so often."""
    ax = _axes(ax)
    for index, (label, result) in enumerate(report._labelled()):
        steps = result["erase_count"]["histogram"]
        blocks = sum(step["blocks"] for step in steps)
        times, shares, so_far = [steps[0]["from"]], [0.0], 0
        for step in steps:
            so_far += step["blocks"]
            times.append(step["to"])
            shares.append(100 * so_far / blocks)
        ax.plot(times, shares, label=label, **_line(index))
    ax.set(xlabel="erases of a block", ylabel="blocks erased at most so often (%)")
    return _done(ax, "Wear", report)


def series(report: Report, column: str = "mean_us", *, ax: Any = None) -> Any:
    """A column of ``Report.series`` over simulated time."""
    table = report.series
    if not len(table):
        raise InputError('the report has no series; give compare series="1s" or another interval')
    _has(table.columns, column)
    ax = _axes(ax)
    for index, label in enumerate(report.labels):
        rows = [row for row in table if row["run"] == label]
        times = [row["seconds"] for row in rows]
        values = [math.nan if row[column] is None else row[column] for row in rows]
        style = _line(index) | {"markevery": max(1, len(rows) // 12)}
        ax.plot(times, values, label=label, **style)
    ax.set(xlabel="simulated time (s)", ylabel=_NAMES.get(column, column))
    name = _NAMES.get(column, column)
    return _done(ax, f"{name[0].upper()}{name[1:]} over time", report)


def sweep(
    table: Any,
    x: str,
    y: str,
    by: str | None = None,
    *,
    kind: str = "lines",
    ax: Any = None,
) -> Any:
    """A column ``y`` of a sweep's table over a column ``x``, for each value of ``by``; such as ``x="plan.cache"``,
    ``y="waf"``, ``by="plan.schemes"``. Rows that agree in both are repetitions: lines run through their means, and
    bands are 95 % confidence intervals. ``kind="heat"`` is a heat map of the means, with ``by`` as the other axis."""
    if kind not in ("lines", "heat"):
        raise InputError(f'kind: "{kind}" is unknown; give "lines" or "heat"')
    if kind == "heat" and by is None:
        raise InputError("by: a heat map needs a second axis")
    rows = _rows(table)
    columns = rows[0].keys() if rows else []
    for column in (x, y, *([by] if by else [])):
        _has(columns, column)
    cells: dict[tuple[Any, Any], list[float]] = {}
    flat: dict[Any, list[float]] = {}
    for row in rows:
        if row[y] is None:
            continue
        if row[x] is None:
            # A scheme that lacks what varies: its one value holds everywhere.
            flat.setdefault(row[by] if by else None, []).append(row[y])
        else:
            cells.setdefault((row[x], row[by] if by else None), []).append(row[y])
    if not cells:
        raise InputError(f"the table has no row with both {x} and {y}")
    across = _ordered({where for where, _ in cells})
    for group, values in flat.items():
        for where in across:
            cells.setdefault((where, group), values)
    groups = _ordered({group for _, group in cells})
    workloads = sorted({str(row["workload.name"]) for row in rows if row.get("workload.name")})
    ax = _axes(ax)
    if kind == "heat":
        _heat(ax, cells, across, groups, y)
        ax.set(xlabel=_plain(x), ylabel=_plain(by or ""))
        return _titled(ax, f"{_plain(y)}, means", ", ".join(workloads))
    places, labels = _places(across)
    for index, group in enumerate(groups):
        at = [
            (place, cells[where, group]) for where, place in zip(across, places, strict=True) if (where, group) in cells
        ]
        style = _line(index)
        middle = [fmean(values) for _, values in at]
        halves = [_half_width(values) for _, values in at]
        ax.plot([place for place, _ in at], middle, label="all" if group is None else str(group), **style)
        low = [value - half for value, half in zip(middle, halves, strict=True)]
        high = [value + half for value, half in zip(middle, halves, strict=True)]
        if any(halves):
            band = {"facecolor": style["color"], "edgecolor": style["color"], "alpha": 0.2}
            ax.fill_between([place for place, _ in at], low, high, hatch=_HATCHES[index % 8], **band)
    if labels:
        ax.set_xticks(places, labels)
        ax.set_xticks([], minor=True)
    ax.set(xlabel=_plain(x), ylabel=_plain(y))
    repeated = max(len(values) for values in cells.values())
    what = f"{_plain(y)}, means and 95 % confidence over {repeated} runs" if repeated > 1 else _plain(y)
    return _titled(ax, what, ", ".join(workloads), grid="both", legend=by is not None)


def published(reproduction: Reproduction, figure: str | None = None, *, ax: Any = None) -> Any:
    """Published against measured figures of a reproduction, those called ``figure``: a filled mark is measured, an open
    one published, a bar a published range and an arrow one with an open end."""
    rows = [
        (experiment["title"], row)
        for experiment in reproduction.data.get("experiments", [])
        for row in experiment["figures"]
        if isinstance(row["measured"], (int, float)) and not row["varied"]
    ]
    names = list(dict.fromkeys(row["figure"] for _, row in rows))
    if not rows:
        raise InputError("the reproduction has no number that was measured")
    if figure is None:
        figure = next((row["figure"] for _, row in rows if row["published"] is not None), names[0])
    if figure not in names:
        raise InputError(f'figure: "{figure}" is not there; there are {", ".join(names)}')
    rows = [(title, row) for title, row in rows if row["figure"] == figure]
    ax = _axes(ax)
    labels = []
    for place, (_, row) in enumerate(rows):
        labels.append(f"{row['configuration'] or ''}, {row['workload']} ({row['ran_on']})".lstrip(", "))
        once = {"label": "measured"} if place == 0 else {}
        ax.errorbar(
            row["measured"], place, xerr=row["half_width_99"], fmt="o", color=_COLOURS[0], capsize=3, zorder=3, **once
        )
        told = row["published"]
        if isinstance(told, list) and None not in told:
            ax.plot(told, [place, place], "-", color=_COLOURS[1], linewidth=5, alpha=0.5, solid_capstyle="butt")
        elif isinstance(told, list):
            # An end is open: an arrow points to where the range goes on.
            ends = [
                (end, arrow)
                for end, arrow in zip(told, ("$\\rightarrow$", "$\\leftarrow$"), strict=True)
                if end is not None
            ]
            for end, arrow in ends:
                ax.plot(end, place, marker="|", color=_COLOURS[1], markersize=12, linestyle="")
                ax.plot(end, place - 0.2, marker=arrow, color=_COLOURS[1], markersize=12, linestyle="")
        elif isinstance(told, (int, float)):
            ax.plot(told, place, "s", color=_COLOURS[1], fillstyle="none", markersize=9)
    ax.plot([], [], "s", color=_COLOURS[1], fillstyle="none", markersize=9, label="published")
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    if ax.get_xlim()[0] >= 0:
        ax.set_xlim(left=0)
    unit = rows[0][1]["unit"]
    ax.set_xlabel(figure + (f" ({unit})" if unit else ""))
    return _titled(ax, rows[0][0], ", ".join(dict.fromkeys(row["source"] for _, row in rows)), grid="x")


_NAMES = {
    "mean_us": "mean response (µs)",
    "p99_us": "99th percentile of responses (µs)",
    "waf": "WAF",
    "iops": "requests/s",
}


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'ftlab[plots]'") from None
    with pyplot.rc_context(_STYLE):
        made = pyplot.subplots()[1]
        interactive = pyplot.isinteractive()
    # A notebook's first figure turns the interactive mode on. The end of the style must not turn it off again.
    if interactive:
        pyplot.ion()
    return made


def _line(index: int) -> dict[str, Any]:
    place = index % len(_COLOURS)
    # Eight colours with eight dashes; after them, other pairs.
    other = (place + index // len(_COLOURS)) % len(_DASHES)
    return {"color": _COLOURS[place], "linestyle": _DASHES[other], "marker": _MARKERS[other]}


def _timed_requests(report: Report) -> int:
    # Discards and flushes are requests, but in none of the times.
    return report.data["workload"]["reads"] + report.data["workload"]["writes"]


def _done(ax: Any, what: str, report: Report) -> Any:
    workload, device = report.data["workload"], report.data["device"]
    shown = f"{workload['name']}: {workload['requests']:,} requests on {device['name']}"
    return _titled(ax, what, shown, grid="both")


def _titled(ax: Any, what: str, workload: str, grid: str | None = None, legend: bool = True) -> Any:
    import textwrap

    ax.set_title("\n".join([what, *textwrap.wrap(workload, 84)[:3]]), loc="left", fontsize=10)
    if grid:
        ax.grid(axis=grid)
    if legend and grid and len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend(handlelength=3.5, frameon=False)
    return ax


def _bars(ax: Any, report: Report, parts: Iterable[tuple[str, str, float]], unit: str, title: str) -> Any:
    parts = list(parts)
    ax = _axes(ax)
    runs = report.labels
    totals: dict[str, dict[str, float]] = {}
    for run, part, value in parts:
        totals.setdefault(part, {})[run] = value
    start = [0.0] * len(runs)
    for index, (part, values) in enumerate(item for item in totals.items() if any(item[1].values())):
        widths = [values.get(run, 0.0) for run in runs]
        colour, hatch = _COLOURS[index % 8], _HATCHES[(index + index // 8) % 8]
        ax.barh(
            runs, widths, 0.6, left=start, color=colour, hatch=hatch, edgecolor="white", label=part.replace("_", " ")
        )
        start = [begin + width for begin, width in zip(start, widths, strict=True)]
    for place, total in enumerate(start):
        ax.annotate(f" {total:,.0f}" if total >= 100 else f" {total:.3g}", (total, place), va="center")
    ax.invert_yaxis()
    ax.set_xlim(0, 1.12 * max(start) or 1.0)
    ax.set_xlabel(unit)
    _done(ax, title, report)
    ax.grid(axis="y", visible=False)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=2.5, handleheight=1.4, frameon=False)
    return ax


def _heat(ax: Any, cells: dict[tuple[Any, Any], list[float]], across: list[Any], groups: list[Any], y: str) -> None:
    means = [[fmean(cells.get((x, group), [math.nan])) for x in across] for group in groups]
    image = ax.imshow(means, cmap="cividis", aspect="auto")
    middle = (image.norm.vmin + image.norm.vmax) / 2
    for row, values in enumerate(means):
        for column, value in enumerate(values):
            text = "-" if math.isnan(value) else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            ax.text(column, row, text, ha="center", va="center", color="black" if value > middle else "white")
    ax.set_xticks(range(len(across)), [str(x) for x in across])
    ax.set_yticks(range(len(groups)), [str(group) for group in groups])
    ax.figure.colorbar(image, ax=ax, label=_plain(y))


def _half_width(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean."""
    if len(values) < 2:
        return 0.0
    quantile = _T95[len(values) - 2] if len(values) - 2 < len(_T95) else 1.96 + 2.4 / (len(values) - 1)
    return quantile * stdev(values) / math.sqrt(len(values))


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _number(value: Any) -> float | None:
    """A number, or a size such as 64KiB in bytes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    size = re.fullmatch(r"([0-9.]+) ?([KMGT]?)iB", str(value)) or re.fullmatch(r"([0-9]+)()", str(value))
    return float(size[1]) * _UNITS[size[2]] if size else None


def _ordered(values: set[Any]) -> list[Any]:
    numbers = {value: _number(value) for value in values}
    if all(number is not None for number in numbers.values()):
        return sorted(values, key=lambda value: numbers[value])
    return sorted(values, key=lambda value: (value is None, str(value)))


def _places(values: list[Any]) -> tuple[list[float], list[str]]:
    """Where values stand on an axis. Numbers stand where they are; sizes and words at equal distances, with labels."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values], []
    return [float(place) for place in range(len(values))], [str(value) for value in values]


def _plain(column: str) -> str:
    """A column as an axis names it."""
    column = column.removeprefix("plan.")
    time = re.fullmatch(r"(response|service|queue)_us\.(?:(read|write)\.)?(\w+)", column)
    if not time:
        return _NAMES.get(column, column.replace("_us", " (µs)"))
    share = re.fullmatch(r"p(\d\d)(\d*)", time[3])
    which = f"{share[1]}{'.' if share[2] else ''}{share[2]} % quantile of" if share else time[3]
    kind = {"response": "response", "service": "service", "queue": "wait in the queue"}[time[1]]
    return " ".join(word for word in (which, time[2], kind, "(µs)") if word)


def _has(columns: Iterable[str], column: str) -> None:
    columns = list(columns)
    if column not in columns:
        near = difflib.get_close_matches(column, columns, 1)
        raise InputError(f'there is no column "{column}"' + (f'; did you mean "{near[0]}"?' if near else ""))


def _rows(table: Any) -> list[dict[str, Any]]:
    """Rows of whatever holds a table."""
    if hasattr(table, "iter_rows"):
        return list(table.iter_rows(named=True))
    if isinstance(table, (list, tuple)) and all(isinstance(row, Mapping) for row in table):
        return [dict(row) for row in table]
    if hasattr(table, "to_dicts"):
        return list(table.to_dicts())
    if hasattr(table, "to_dict"):
        rows = table.to_dict("records")
        return [{key: None if value != value else value for key, value in row.items()} for row in rows]
    if hasattr(table, "fetchall"):
        return [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    raise InputError(f"table: {type(table).__name__} is no table; give what ftlab.load returns")


def _times(path: str | os.PathLike[str]) -> list[float]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            times = sorted(float(row["response_us"]) for row in csv.DictReader(file))
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror}") from error
    except (KeyError, ValueError) as error:
        raise InputError(f"{os.fspath(path)} is no file that per_request wrote: {error!r}") from error
    if not times:
        raise InputError(f"{os.fspath(path)} has no requests")
    return times

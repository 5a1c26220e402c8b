"""A result as an HTML page of its own: charts and tables, without scripts or other files."""

from html import escape
from math import log10

from kilonova.component.command.output.terminal_text import to_one_line
from kilonova.serving.loadtest.report.charts import Axis, Series, build_axis, draw_lines
from kilonova.serving.loadtest.report.text import (
    describe_target,
    format_milliseconds,
    list_latencies,
)
from kilonova.serving.loadtest.result import LoadResult

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --a: #2563eb; --b: #d97706; --c: #dc2626; }
@media (prefers-color-scheme: dark) { :root { --a: #60a5fa; --b: #fbbf24; --c: #f87171; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } figure { margin: 1.5rem 0; }
figcaption { font-weight: 600; display: flex; justify-content: space-between; flex-wrap: wrap; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; }
.tick, .label { text-anchor: middle; opacity: .75; } .tick.y { text-anchor: end; }
.grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
polyline.a, circle.a { stroke: var(--a); } polyline.b, circle.b { stroke: var(--b); }
polyline.c, circle.c { stroke: var(--c); }
.legend span { font-weight: 400; margin-left: 1rem; } .legend span::before { content: "●  "; }
span.a::before { color: var(--a); } span.b::before { color: var(--b); }
span.c::before { color: var(--c); }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, .text { text-align: left; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .5rem; }
dt { opacity: .75; } dd { margin: 0; font-size: 1.4rem; font-weight: 600; }
"""
_NINES = (0, 50, 90, 99, 99.9, 99.99)


def format_page(result: LoadResult, title: str = "Load test") -> str:
    """The whole page; all text from elsewhere is escaped."""
    body = "".join(
        (
            f"<h1>{escape(title)}: {escape(describe_target(result))}</h1>",
            _format_figures(result),
            _draw_latency(result),
            _draw_throughput(result),
            _draw_distribution(result),
            _format_latencies(result),
            _format_steps(result),
            _format_failures(result),
            "".join(f"<p>{escape(note)}.</p>" for note in result.notes),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _format_figures(result: LoadResult) -> str:
    latency = result.latency
    figures = [
        ("requests", str(result.requests)),
        ("failed", str(result.failed)),
        ("requests/s", f"{result.throughput:.1f}"),
        ("p50", "-" if latency is None else f"{format_milliseconds(latency.p50)} ms"),
        ("p99", "-" if latency is None else f"{format_milliseconds(latency.p99)} ms"),
    ]
    if result.completion_tokens:
        figures.append(("tokens/s", f"{result.tokens_per_second:.1f}"))
    if result.attainment is not None:
        figures.append(("meet all objectives", f"{result.attainment:g} %"))
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)
    return f"<dl>{items}</dl>"


def _draw_latency(result: LoadResult) -> str:
    series = (
        Series("p99", "b", [(each.at, each.p99) for each in result.timeline]),
        Series("p50", "a", [(each.at, each.p50) for each in result.timeline]),
    )
    return draw_lines(
        "Latency over time", "seconds", "milliseconds", _build_time_axis(result), series
    )


def _draw_throughput(result: LoadResult) -> str:
    started = [(each.at, each.requests / each.seconds) for each in result.timeline]
    failed = [(each.at, each.failed / each.seconds) for each in result.timeline]
    series = (Series("requests", "a", started), Series("failed", "c", failed))
    return draw_lines(
        "Requests over time", "seconds", "per second", _build_time_axis(result), series
    )


def _draw_distribution(result: LoadResult) -> str:
    points = [
        (_stretch(each.percentile), each.latency)
        for each in result.distribution
        if each.percentile < 100
    ]
    high = max((at for at, _ in points), default=1.0)
    ticks = tuple((_stretch(each), f"{each:g}") for each in _NINES if _stretch(each) <= high)
    axis = Axis(0.0, high or 1.0, ticks)
    series = (Series("latency", "a", points),)
    return draw_lines("Latency by percentile", "percentile", "milliseconds", axis, series)


def _stretch(percentile: float) -> float:
    """Each further nine is as far away as the last one."""
    return -log10(1 - percentile / 100)


def _build_time_axis(result: LoadResult) -> Axis:
    return build_axis(max((each.at for each in result.timeline), default=1.0))


def _format_latencies(result: LoadResult) -> str:
    rows = [
        (name, *map(format_milliseconds, (q.mean, q.p50, q.p90, q.p95, q.p99, q.max)))
        for name, q in list_latencies(result)
    ]
    return _format_table(("milliseconds", "mean", "p50", "p90", "p95", "p99", "max"), rows)


def _format_steps(result: LoadResult) -> str:
    rows = [
        (
            step.level,
            f"{step.seconds:g}",
            str(step.requests),
            str(step.failed),
            f"{step.throughput:.1f}",
            "-" if step.latency is None else format_milliseconds(step.latency.p50),
            "-" if step.latency is None else format_milliseconds(step.latency.p99),
        )
        for step in result.steps
    ]
    level = "clients" if result.load == "closed" else "rate"
    return _format_table((level, "seconds", "requests", "failed", "per second", "p50", "p99"), rows)


def _format_failures(result: LoadResult) -> str:
    rows = [(each.status, str(each.count), "; ".join(each.messages)) for each in result.failures]
    return _format_table(("failure", "count", "first messages"), rows)


def _format_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(each)}</th>" for each in header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(to_one_line(each))}</td>" for each in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"

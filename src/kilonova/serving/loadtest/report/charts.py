"""Charts as SVG, without a library: a page needs nothing from elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 22, 14, 38
_TICKS = 5

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A line; a gap where a value is None."""

    name: str
    style: str
    """A class of the page's style sheet."""
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Axis:
    """The values from `low` to `high`, with ticks at round numbers."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def build_axis(highest: float) -> Axis:
    """From 0 to a round number above the highest value."""
    step = _choose_step(highest / _TICKS if highest > 0 else 0.2)
    count = max(1, ceil(highest / step - 1e-9))
    ticks = tuple((index * step, f"{index * step:g}") for index in range(count + 1))
    return Axis(0.0, count * step, ticks)


def draw_lines(title: str, x_label: str, y_label: str, x: Axis, series: Sequence[Series]) -> str:
    """A chart of lines, with a legend."""
    values = (y for each in series for _, y in each.points if y is not None)
    y = build_axis(max(values, default=1.0))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_draw_grid(x, y),
        *(_draw_line(each, x, y) for each in series),
        f'<text class="label" x="{_WIDTH / 2}" y="{_HEIGHT - 4}">{escape(x_label)}</text>',
        f'<text class="label" transform="translate(12 {_HEIGHT / 2}) rotate(-90)">'
        f"{escape(y_label)}</text>",
        "</svg>",
    ]
    legend = "".join(f'<span class="{each.style}">{escape(each.name)}</span>' for each in series)
    caption = f'{escape(title)}<span class="legend">{legend}</span>'
    return f"<figure><figcaption>{caption}</figcaption>{''.join(parts)}</figure>"


def _draw_grid(x: Axis, y: Axis) -> Iterator[str]:
    for value, text in y.ticks:
        at = _scale_y(value, y)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text class="tick y" x="{_LEFT - 6}" y="{at + 4}">{text}</text>'
    for value, text in x.ticks:
        at = _scale_x(value, x)
        yield f'<text class="tick" x="{at}" y="{_HEIGHT - _BOTTOM + 16}">{text}</text>'


def _draw_line(series: Series, x: Axis, y: Axis) -> str:
    runs: list[list[Point]] = [[]]
    for at, value in series.points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((_scale_x(at, x), _scale_y(value, y)))
    drawn: list[str] = []
    for run in filter(None, runs):
        if len(run) == 1:
            drawn.append(
                f'<circle class="{series.style}" cx="{run[0][0]}" cy="{run[0][1]}" r="3"/>'
            )
        else:
            points = " ".join(f"{px},{py}" for px, py in run)
            drawn.append(f'<polyline class="{series.style}" points="{points}"/>')
    return "".join(drawn)


def _scale_x(value: float, axis: Axis) -> float:
    share = (value - axis.low) / (axis.high - axis.low)
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _scale_y(value: float, axis: Axis) -> float:
    share = (value - axis.low) / (axis.high - axis.low)
    return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def _choose_step(at_least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(at_least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= at_least - 1e-12)

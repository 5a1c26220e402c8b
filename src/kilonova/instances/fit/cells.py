"""Accelerators as characters: one each, or a bar for many. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kilonova.instances.fit.accelerators import Accelerator
from kilonova.instances.fit.style import Style
from kilonova.instances.fit.topology_view import NodeView

MAX_CELLS = 16
"""The accelerators of a node that are drawn one by one, and the length of bars."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Accelerators of a domain."""

    nodes: int
    accelerators: int
    free: int
    unavailable: int
    unhealthy: int

    @classmethod
    def of(cls, nodes: Iterable[NodeView]) -> "Totals":
        """Count the accelerators of nodes."""
        count = 0
        states: Counter[str] = Counter()
        for node in nodes:
            count += 1
            states.update(each.state for each in node.accelerators)
        free, unavailable, unhealthy = (
            states[name] for name in ("Free", "Unavailable", "Unhealthy")
        )
        return cls(count, states.total(), free, unavailable, unhealthy)


def draw_node_cells(node: NodeView, style: Style) -> str:
    """A character for each accelerator of a node; of many, a bar."""
    if len(node.accelerators) <= MAX_CELLS:
        return _draw_runs(node.accelerators, style)
    return draw_bar(Counter(node.accelerators), style)


def draw_bar(accelerators: Counter[Accelerator], style: Style) -> str:
    """A bar in proportion, holders first; exact if there are no more than its length. What there is
    has at least one character, as far as there are enough."""
    order = sorted(accelerators, key=lambda each: _bar_order(each, style))
    amounts = [accelerators[each] for each in order]
    total = sum(amounts)
    length = min(total, MAX_CELLS)
    shares = [max(1, amount * length // total) for amount in amounts]
    remainders = sorted(
        range(len(order)), key=lambda each: (-(amounts[each] * length % total), each)
    )
    for each in remainders:
        if sum(shares) < length:
            shares[each] += 1
    while sum(shares) > length:
        largest = max(range(len(order)), key=lambda each: (shares[each], -each))
        shares[largest] -= 1
    drawn = ([each] * share for each, share in zip(order, shares, strict=True))
    return _draw_runs([each for some in drawn for each in some], style)


def _bar_order(accelerator: Accelerator, style: Style) -> tuple[int, str, bool]:
    rank = 0 if accelerator.holder is not None else _RANKS.get(accelerator.state, 1)
    return (1 if accelerator.is_next else rank), style.draw(accelerator), accelerator.is_next


_RANKS = {"Free": 2, "Withheld": 3, "Unavailable": 4, "Unhealthy": 5}


def _draw_runs(accelerators: Sequence[Accelerator], style: Style) -> str:
    runs = ((each, sum(1 for _ in some)) for each, some in groupby(accelerators))
    return "".join(style.paint_run(each, style.draw(each) * count) for each, count in runs)

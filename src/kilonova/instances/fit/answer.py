"""How many copies of a build fit, in lines. Pure."""

from collections.abc import Iterator

from kilonova.component.command.output.formats import pluralize
from kilonova.instances.alloc.allocation import Allocation
from kilonova.instances.builders.gang import AGENTS
from kilonova.scheduler.library.copies import Copies, PlacedCopy, UnplacedCopy
from kilonova.scheduler.library.explanation_text import format_explanation


def format_answer(allocation: Allocation, now: float) -> Iterator[str]:
    """The build, the place of its next copy, how many copies fit, and why there are no more."""
    build, copies = allocation.build, allocation.copies
    amount = f"{build.accelerator.count} {build.accelerator.resource}"
    yield (
        f"Build {build.id} of {build.model}: {pluralize(build.agents, 'agent')} with {amount} "
        f"each, strategy {allocation.strategy}"
    )
    if copies.placed:
        yield f"Next copy: {_format_place(copies.placed[0])}"
    yield f"Copies that fit: {format_count(copies)}"
    if copies.unplaced is not None:
        yield from format_reason(copies.unplaced, now)


def format_count(copies: Copies) -> str:
    """`3`, `at least 100`."""
    return str(copies.count) if copies.is_exact else f"at least {copies.count}"


def format_reason(unplaced: UnplacedCopy, now: float) -> Iterator[str]:
    """Why a copy does not fit, as `kilonova why` says it."""
    yield f"{unplaced.gang} would be pending: {unplaced.reason}."
    yield from format_explanation(unplaced.explanation, now)


def _format_place(copy: PlacedCopy) -> str:
    agents = [pod for pod in copy.pods if pod.group == AGENTS]
    nodes = pluralize(len({pod.node for pod in agents}), "node")
    place = f"{nodes} in {copy.domain}" if copy.domain else nodes
    evicted = [f"{len(unit.pods)} of {unit.gang}" for unit in copy.evicted]
    return place + (f", after the eviction of {', '.join(evicted)}" if evicted else "")

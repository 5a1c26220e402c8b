"""The forest that queues form, whatever people wrote, and what is wrong with it."""

from collections.abc import Iterable, Iterator, Mapping

from kilonova.scheduler.core.queues import DEFAULT, Amounts, Forest, Problem, Queue, QueueSpec


def forest_of(specs: Iterable[QueueSpec]) -> Forest:
    """The queues in their places, and what is wrong with them; independent of the order given."""
    listed = sorted(specs, key=lambda each: each.name)
    written = {each.name: each for each in listed}
    if len(written) < len(listed):
        raise ValueError("two queues have the same name")
    written.setdefault(DEFAULT, QueueSpec(DEFAULT))
    lost = list(_lost(written))
    queues = _placed(written, {each.queue for each in lost})
    problems = [*lost, *_negative(written.values()), *_contradictions(written, queues)]
    faults = {each.queue: each for each in reversed(problems) if each.is_fault}
    roots = tuple(sorted(name for name in queues if not written[name].parent))
    ordered = tuple(sorted(problems, key=lambda each: (each.queue, each.reason, each.message)))
    return Forest(queues, roots, ordered, faults)


def _lost(written: Mapping[str, QueueSpec]) -> Iterator[Problem]:
    """Queues whose parents lead to no root, but for those that are merely below such a queue."""
    for name, spec in written.items():
        if spec.parent and spec.parent not in written:
            message = f'queue "{name}" has the parent "{spec.parent}", which is not there'
            fix = f'create "{spec.parent}", or name another parent'
            yield Problem(name, "UnknownParent", message, fix)
            continue
        way = _way_up(name, written)
        if written[way[-1]].parent == name:
            first = way.index(min(way))
            circle = [*way[first:], *way[:first], way[first]]
            message = f'queue "{name}" is above itself: {" → ".join(circle)} (each names the next)'
            fix = "give one of them another parent, or none"
            yield Problem(name, "ParentCycle", message, fix)


def _way_up(name: str, written: Mapping[str, QueueSpec]) -> list[str]:
    """The queue and those above it, up to the last that was not met before."""
    way: dict[str, None] = {}
    while name in written and name not in way:
        way[name] = None
        name = written[name].parent
    return list(way)


def _negative(specs: Iterable[QueueSpec]) -> Iterator[Problem]:
    for spec in specs:
        said: dict[str, float | None] = {
            **{f"deserved[{name}]": amount for name, amount in spec.deserved.items()},
            **{f"limit[{name}]": amount for name, amount in spec.limit.items()},
            "weight": spec.weight,
            "preemptMinRuntime": spec.preempt_min_runtime,
            "reclaimMinRuntime": spec.reclaim_min_runtime,
        }
        for what, value in said.items():
            if value is not None and value < 0:
                message = f'queue "{spec.name}" has {what} {value}, below 0'
                fix = "leave it out for no limit" if what.startswith("limit") else "raise it to 0"
                yield Problem(spec.name, "NegativeAmount", message, fix)


def _placed(written: Mapping[str, QueueSpec], lost: set[str]) -> dict[str, Queue]:
    """Every queue with its path, parents first; a lost one stands at the top."""
    paths: dict[str, tuple[str, ...]] = {}
    for name in written:
        for each in reversed(_way_up(name, written)):
            above = () if each in lost or not written[each].parent else paths[written[each].parent]
            paths.setdefault(each, (each, *above))
    children: dict[str, list[str]] = {name: [] for name in written}
    for name, path in paths.items():
        if len(path) > 1:
            children[path[1]].append(name)
    parents_first = sorted(paths, key=lambda name: (len(paths[name]), name))
    deserved = _deserved(written, children, parents_first)
    queues: dict[str, Queue] = {}
    for name in parents_first:
        spec = written[name]
        above = queues[paths[name][1]] if len(paths[name]) > 1 else None
        queues[name] = Queue(
            name,
            paths[name],
            tuple(sorted(children[name])),
            deserved[name],
            _not_negative(spec.limit),
            max(0, spec.weight),
            spec.priority,
            _first(spec.preempt_min_runtime, above.preempt_min_runtime if above else 0.0),
            _first(spec.reclaim_min_runtime, above.reclaim_min_runtime if above else 0.0),
        )
    return queues


def _deserved(
    written: Mapping[str, QueueSpec],
    children: Mapping[str, list[str]],
    parents_first: list[str],
) -> dict[str, Amounts]:
    deserved: dict[str, Amounts] = {}
    for name in reversed(parents_first):
        total: dict[str, int] = {}
        for child in children[name]:
            for resource, amount in deserved[child].items():
                total[resource] = total.get(resource, 0) + amount
        total |= _not_negative(written[name].deserved)
        limit = _not_negative(written[name].limit)
        deserved[name] = {each: min(most, limit.get(each, most)) for each, most in total.items()}
    return deserved


def _contradictions(
    written: Mapping[str, QueueSpec], queues: Mapping[str, Queue]
) -> Iterator[Problem]:
    """What cannot all be kept. The limit holds; parents divide what they have among children."""
    for name, spec in written.items():
        for resource, amount in spec.deserved.items():
            limit = spec.limit.get(resource, amount)
            if 0 <= limit < amount:
                message = f'queue "{name}" deserves {amount} {resource}, above its limit of {limit}'
                fix = "raise limit or lower deserved"
                yield Problem(name, "LimitBelowDeserved", message, fix)
        for resource, amount in queues[name].deserved.items():
            children = queues[name].children
            promised = sum(queues[child].deserved.get(resource, 0) for child in children)
            if promised > amount:
                message = (
                    f'queues below "{name}" deserve {promised} {resource} together, '
                    f"which itself deserves {amount}"
                )
                fix = f'raise deserved or limit of "{name}", or lower deserved of the others'
                yield Problem(name, "DeservedAboveParent", message, fix)


def _not_negative(amounts: Amounts) -> dict[str, int]:
    return {name: max(0, amount) for name, amount in amounts.items()}


def _first(said: float | None, inherited: float) -> float:
    return inherited if said is None else max(0.0, said)

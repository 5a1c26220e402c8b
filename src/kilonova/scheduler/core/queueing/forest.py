"""Builds the forest of queues from their specs, whatever they contain, and reports problems."""

from collections.abc import Iterable, Iterator, Mapping

from kilonova.scheduler.core.queueing.queues import (
    DEFAULT_QUEUE,
    Queue,
    QueueForest,
    QueueProblem,
    QueueSpec,
    ResourceAmounts,
)


def build_queue_forest(specs: Iterable[QueueSpec]) -> QueueForest:
    """The queues with their paths, and the problems of their specs; independent of the order
    given."""
    listed = sorted(specs, key=lambda each: each.name)
    declared = {each.name: each for each in listed}
    if len(declared) < len(listed):
        raise ValueError("two queues have the same name")
    declared.setdefault(DEFAULT_QUEUE, QueueSpec(DEFAULT_QUEUE))
    orphans = list(_find_parent_problems(declared))
    queues = _build_queues(declared, {each.queue for each in orphans})
    problems = [
        *orphans,
        *_find_negative_amounts(declared.values()),
        *_find_contradictions(declared, queues),
    ]
    blocking = {each.queue: each for each in reversed(problems) if each.is_blocking}
    roots = tuple(sorted(name for name in queues if not declared[name].parent))
    ordered = tuple(sorted(problems, key=lambda each: (each.queue, each.reason, each.message)))
    return QueueForest(queues, roots, ordered, blocking)


def _find_parent_problems(declared: Mapping[str, QueueSpec]) -> Iterator[QueueProblem]:
    """Queues without a path to a root, except those that are merely below such a queue."""
    for name, spec in declared.items():
        if spec.parent and spec.parent not in declared:
            message = f'queue "{name}" has the parent "{spec.parent}", which does not exist'
            fix = f'create "{spec.parent}", or name another parent'
            yield QueueProblem(name, "QueueParentNotFound", message, fix)
            continue
        path = _list_ancestors(name, declared)
        if declared[path[-1]].parent == name:
            first = path.index(min(path))
            circle = [*path[first:], *path[:first], path[first]]
            message = (
                f'queue "{name}" is its own ancestor: {" → ".join(circle)} (each names the next)'
            )
            fix = "give one of them another parent, or none"
            yield QueueProblem(name, "QueueParentCycle", message, fix)


def _list_ancestors(name: str, declared: Mapping[str, QueueSpec]) -> list[str]:
    """The queue and its ancestors, up to the last one that was not visited before."""
    path: dict[str, None] = {}
    while name in declared and name not in path:
        path[name] = None
        name = declared[name].parent
    return list(path)


def _find_negative_amounts(specs: Iterable[QueueSpec]) -> Iterator[QueueProblem]:
    for spec in specs:
        values: dict[str, float | None] = {
            **{f"deserved[{name}]": amount for name, amount in spec.deserved.items()},
            **{f"limit[{name}]": amount for name, amount in spec.limit.items()},
            "weight": spec.weight,
            "preemptMinRuntime": spec.preempt_min_runtime,
            "reclaimMinRuntime": spec.reclaim_min_runtime,
        }
        for what, value in values.items():
            if value is not None and value < 0:
                message = f'queue "{spec.name}" has {what} {value}, below 0'
                fix = "leave it out for no limit" if what.startswith("limit") else "raise it to 0"
                yield QueueProblem(spec.name, "QueueNegativeAmount", message, fix)


def _build_queues(declared: Mapping[str, QueueSpec], unrooted: set[str]) -> dict[str, Queue]:
    """Every queue with its path, parents first; a queue without a path to a root becomes a root."""
    paths: dict[str, tuple[str, ...]] = {}
    for name in declared:
        for each in reversed(_list_ancestors(name, declared)):
            above = (
                ()
                if each in unrooted or not declared[each].parent
                else paths[declared[each].parent]
            )
            paths.setdefault(each, (each, *above))
    children: dict[str, list[str]] = {name: [] for name in declared}
    for name, path in paths.items():
        if len(path) > 1:
            children[path[1]].append(name)
    parents_first = sorted(paths, key=lambda name: (len(paths[name]), name))
    deserved = _compute_deserved(declared, children, parents_first)
    queues: dict[str, Queue] = {}
    for name in parents_first:
        spec = declared[name]
        above = queues[paths[name][1]] if len(paths[name]) > 1 else None
        queues[name] = Queue(
            name,
            paths[name],
            tuple(sorted(children[name])),
            deserved[name],
            _clamp_to_zero(spec.limit),
            max(0, spec.weight),
            spec.priority,
            _inherit_runtime(spec.preempt_min_runtime, above.preempt_min_runtime if above else 0.0),
            _inherit_runtime(spec.reclaim_min_runtime, above.reclaim_min_runtime if above else 0.0),
        )
    return queues


def _compute_deserved(
    declared: Mapping[str, QueueSpec],
    children: Mapping[str, list[str]],
    parents_first: list[str],
) -> dict[str, ResourceAmounts]:
    deserved: dict[str, ResourceAmounts] = {}
    for name in reversed(parents_first):
        total: dict[str, int] = {}
        for child in children[name]:
            for resource, amount in deserved[child].items():
                total[resource] = total.get(resource, 0) + amount
        total |= _clamp_to_zero(declared[name].deserved)
        limit = _clamp_to_zero(declared[name].limit)
        deserved[name] = {each: min(most, limit.get(each, most)) for each, most in total.items()}
    return deserved


def _find_contradictions(
    declared: Mapping[str, QueueSpec], queues: Mapping[str, Queue]
) -> Iterator[QueueProblem]:
    """Contradicting amounts. The limit wins; parents divide what they have among their children."""
    for name, spec in declared.items():
        for resource, amount in spec.deserved.items():
            limit = spec.limit.get(resource, amount)
            if 0 <= limit < amount:
                message = f'queue "{name}" deserves {amount} {resource}, above its limit of {limit}'
                fix = "raise limit or lower deserved"
                yield QueueProblem(name, "LimitBelowDeserved", message, fix)
        for resource, amount in queues[name].deserved.items():
            children = queues[name].children
            total = sum(queues[child].deserved.get(resource, 0) for child in children)
            if total > amount:
                message = (
                    f'queues below "{name}" deserve {total} {resource} together, '
                    f"which itself deserves {amount}"
                )
                fix = f'raise deserved or limit of "{name}", or lower deserved of the others'
                yield QueueProblem(name, "DeservedAboveParent", message, fix)


def _clamp_to_zero(amounts: ResourceAmounts) -> dict[str, int]:
    return {name: max(0, amount) for name, amount in amounts.items()}


def _inherit_runtime(declared: float | None, inherited: float) -> float:
    return inherited if declared is None else max(0.0, declared)

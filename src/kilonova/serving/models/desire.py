"""From what servers have to the next changes, and what is published of each. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.api.quantity import quantity_from_json
from kilonova.api.serving import Model, ModelPlacement
from kilonova.serving.models.changes import Change, ServerState, choose_changes
from kilonova.serving.models.model import PlacedModel
from kilonova.serving.models.placement import place_models
from kilonova.serving.models.server_api import Index
from kilonova.serving.models.states import ModelState, encode_annotations
from kilonova.serving.models.usage import ModelUsage


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """What is known of a server."""

    name: str
    """The name of its pod."""
    index: Index = field(default_factory=Index)
    """The state of its models; empty if nothing listens."""
    restarts: int = 0
    """How often it had restarted before it said so."""
    is_away: bool = False
    """Whether it does not answer lately; `index` is then what it said before."""
    was_managed: frozenset[str] = frozenset()
    """Models whose load was requested, whether or not they are still desired."""
    change: Change | None = None
    """What it is doing."""
    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why models could not be loaded."""
    resting: frozenset[str] = frozenset()
    """Models whose last change failed, and is not tried again yet."""
    usage: Mapping[str, ModelUsage] = field(default_factory=dict[str, ModelUsage])


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do for a group of servers."""

    changes: list[Change]
    annotations: dict[str, dict[str, str]]
    """Of each server's pod."""


def plan_group(
    declared: ModelPlacement,
    servers: Sequence[ObservedServer],
    requested: frozenset[str],
    now: float,
) -> GroupPlan:
    """Plan the models of a group; `requested` are those that requests wait for, `now` is on the
    monotonic clock."""
    models = {each.name: _build_model(each, servers, requested, now) for each in declared.models}
    memory = declared.server_memory
    server_memory = None if memory is None else quantity_from_json(memory).value
    states = [_build_state(each, models.keys()) for each in servers]
    placement = place_models(
        models.values(),
        {
            each.name: _list_staying(each, state)
            for each, state in zip(servers, states, strict=True)
        },
        server_memory,
    )
    changes = choose_changes(placement, states, models, server_memory)
    started = {each.server: each for each in changes}
    annotations = {
        each.name: _describe(each, started.get(each.name) or each.change, models.keys())
        for each in servers
    }
    _add_problems(annotations, placement.problems)
    restarts = {each.name: each.restarts for each in servers}
    return GroupPlan(
        changes,
        {
            name: encode_annotations(loaded, found, restarts[name])
            for name, (loaded, found) in annotations.items()
        },
    )


def _build_model(
    model: Model, servers: Iterable[ObservedServer], requested: frozenset[str], now: float
) -> PlacedModel:
    usage = [each.usage.get(model.name, ModelUsage()) for each in servers]
    return PlacedModel(
        name=model.name,
        memory=0 if model.memory is None else quantity_from_json(model.memory).value,
        min_copies=model.min_copies,
        max_copies=model.max_copies,
        load=sum(each.load for each in usage),
        idle_seconds=now - max((each.last_used for each in usage), default=float("-inf")),
        is_requested=model.name in requested,
    )


def _build_state(server: ObservedServer, declared: Iterable[str]) -> ServerState:
    """What takes memory: models that are loaded, being loaded, or being unloaded."""
    managed = server.was_managed.union(declared)
    taken = {name for name in managed if server.index.get(name) in _IN_MEMORY}
    busy_with = "" if server.change is None else server.change.model
    if busy_with:
        taken.add(busy_with)
    return ServerState(
        server.name, frozenset(taken), busy_with, server.resting, is_away=server.is_away
    )


_IN_MEMORY = ("READY", "LOADING", "UNLOADING")


def _list_staying(server: ObservedServer, state: ServerState) -> frozenset[str]:
    """What it has, without what it is about to have no more."""
    change = server.change
    leaving = {change.model} if change is not None and change.action == "Unload" else set[str]()
    return state.loaded - leaving


_Description = tuple[frozenset[str], dict[str, ModelState]]


def _describe(
    server: ObservedServer, change: Change | None, declared: Iterable[str]
) -> _Description:
    """The models that a server gets requests for, and the state of those that are managed."""
    states: dict[str, ModelState] = {}
    for name in sorted(server.was_managed.union(declared)):
        if change is not None and change.model == name:
            states[name] = ModelState("Loading" if change.action == "Load" else "Unloading")
        elif server.index.get(name) == "READY":
            states[name] = ModelState("Loaded")
        elif server.index.get(name) == "LOADING":
            states[name] = ModelState("Loading")
        elif name in server.failures:
            states[name] = ModelState("Failed", server.failures[name])
    leaving = change.model if change is not None and change.action == "Unload" else ""
    ready = {name for name, state in server.index.items() if state == "READY" and name != leaving}
    return frozenset(ready), states


def _add_problems(described: dict[str, _Description], problems: Mapping[str, str]) -> None:
    """A model that waits for space is stated with one server that does not have it."""
    for model, problem in problems.items():
        for _, states in (described[name] for name in sorted(described)):
            if model not in states:
                states[model] = ModelState("Waiting", problem)
                break

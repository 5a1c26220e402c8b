"""Which server has which models. Pure.

Copies are placed in the order of what they are for:

1. the minimum of each model;
2. one copy of each model on demand that is **in use**: loaded, and asked for a short time ago;
3. one copy of each model on demand that requests wait for;
4. further copies of **hot** models, with more requests in flight per copy than a server likes;
5. copies that are there already: free memory is worth nothing. Least recently used ones are the
   first to give way.

A copy stays where it is, if it can. A placement is kept as long as it serves these purposes as well
as any other that is found, so that nothing moves when nothing changes.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from kilonova.api.quantity import Format, Quantity
from kilonova.serving.models.model import PlacedModel, Placement, Servers
from kilonova.serving.models.placement_draft import PlacementDraft

HOT_LOAD = 1.0
"""Mean requests in flight on a copy, above which another copy is wanted."""
IN_USE_SECONDS = 10.0
"""A model on demand that was asked for within this time is not unloaded for another one: two that
do not fit beside each other are not exchanged with every request."""

_MAX_STEPS = 16


@dataclass(frozen=True, slots=True)
class _Needs:
    """The copies of a model for each purpose, each with those of the former ones."""

    required: int
    in_use: int
    requested: int
    hot: int


def place_models(
    models: Iterable[PlacedModel], servers: Servers, server_memory: int | None
) -> Placement:
    """Place models over equal servers, given what they have; without `server_memory` all fit.

    The memory of no server is exceeded. If the minimum of every model fits by placing the largest
    first, each on the first servers with space for it, then it is placed.
    """
    known = {each.name: each for each in sorted(models, key=lambda each: each.name)}
    current = {server: servers[server] for server in sorted(servers)}
    planner = _Planner(known, server_memory)
    for _ in range(_MAX_STEPS):
        # What is newly loaded may count as in use, and so change what is needed.
        improved = planner.improve(current)
        if improved == current:
            break
        current = improved
    return Placement(current, planner.find_problems(current))


class _Planner:
    def __init__(self, models: Mapping[str, PlacedModel], server_memory: int | None) -> None:
        self._models = models
        self._loads_everything = server_memory is None
        self._memory: float = math.inf if server_memory is None else server_memory

    def improve(self, servers: Servers) -> dict[str, frozenset[str]]:
        """The same placement, without what may not be; or one that serves its purposes better."""
        needs = self._find_needs(servers)
        draft = self._draft(servers)
        self._place_needs(draft, needs, only_present=True)
        current = draft.finish()
        if self._score(current, needs) == self._best_score(needs):
            return current
        candidates = [current]
        for packed in ({}, self._pack_required(current, needs)):
            draft = self._draft(current)
            for server, names in packed.items():
                for each in names:
                    draft.add(server, self._models[each])
            self._place_needs(draft, needs)
            candidates.append(draft.finish())
        # Of equals the first is chosen: the one with the fewest moves.
        return max(candidates, key=lambda each: self._score(each, needs))

    def find_problems(self, servers: Servers) -> dict[str, str]:
        """Why models have fewer copies than they need."""
        problems: dict[str, str] = {}
        has = self._count_copies(servers)
        for name, model in self._models.items():
            wanted = max(model.min_copies, int(model.is_requested))
            if has[name] < wanted:
                reason = self._explain(model, has[name], len(servers))
                problems[name] = f"{has[name]} of {wanted} copies: {reason}"
        return problems

    def _explain(self, model: PlacedModel, has: int, servers: int) -> str:
        if model.memory > self._memory:
            needed, has_memory = _format_memory(model.memory), _format_memory(self._memory)
            return f"it needs {needed}, and a server has {has_memory}"
        if has >= servers:
            return f"there are {servers} servers"
        if has >= model.limit_copies(servers):
            return f"maxCopies is {model.max_copies}"
        needed, has_memory = _format_memory(model.memory), _format_memory(self._memory)
        return f"no server has {needed} of its {has_memory} free for it"

    def _draft(self, present: Servers) -> PlacementDraft:
        return PlacementDraft(self._models, present, self._memory)

    def _place_needs(
        self, draft: PlacementDraft, needs: Mapping[str, _Needs], *, only_present: bool = False
    ) -> None:
        largest_first = sorted(self._models.values(), key=lambda each: (-each.memory, each.name))
        for model in largest_first:
            draft.place(model, needs[model.name].required, only_present=only_present)
        for model in largest_first:
            draft.place(model, needs[model.name].in_use, only_present=only_present)
        for model in largest_first:
            draft.place(model, needs[model.name].requested, only_present=only_present)
        for model in sorted(self._models.values(), key=lambda each: (-each.load, each.name)):
            draft.place(model, needs[model.name].hot, only_present=only_present)
        draft.keep_present()

    def _find_needs(self, servers: Servers) -> dict[str, _Needs]:
        loaded = self._count_copies(servers)
        needs: dict[str, _Needs] = {}
        for name, model in self._models.items():
            limit = model.limit_copies(len(servers))
            required = min(model.min_copies, limit)
            if self._loads_everything and model.min_copies:
                required = limit
            is_used = loaded[name] > 0 and model.idle_seconds < IN_USE_SECONDS
            in_use = min(max(required, int(is_used)), limit)
            requested = min(max(in_use, int(model.is_requested)), limit)
            hot = min(max(requested, math.ceil(model.load / HOT_LOAD)), limit)
            needs[name] = _Needs(required, in_use, requested, hot)
        return needs

    def _count_copies(self, servers: Servers) -> dict[str, int]:
        return {name: sum(name in each for each in servers.values()) for name in self._models}

    def _score(self, servers: Servers, needs: Mapping[str, _Needs]) -> tuple[int, ...]:
        """The copies that serve each purpose, the most important one first."""
        has = self._count_copies(servers)
        served = [[min(has[name], each) for each in astuple(needs[name])] for name in needs]
        return tuple(map(sum, zip(*served, strict=True)))

    def _best_score(self, needs: Mapping[str, _Needs]) -> tuple[int, ...]:
        return tuple(map(sum, zip(*map(astuple, needs.values()), strict=True)))

    def _pack_required(
        self, current: Servers, needs: Mapping[str, _Needs]
    ) -> dict[str, frozenset[str]]:
        """The required copies, packed again: the largest first, each on the first servers with
        space. As servers are equal, each gets the part that has most in common with what it has."""
        draft = PlacementDraft(self._models, dict.fromkeys(current, frozenset()), self._memory)
        for model in sorted(self._models.values(), key=lambda each: (-each.memory, each.name)):
            fitting = [each for each in current if draft.fits(each, model)]
            for server in fitting[: needs[model.name].required]:
                draft.add(server, model)
        parts = list(draft.finish().values())
        pairs = sorted(
            (-sum(1 + self._models[each].memory for each in part & current[server]), index, server)
            for index, part in enumerate(parts)
            for server in current
        )
        packed: dict[str, frozenset[str]] = {}
        taken: set[int] = set()
        for _, index, server in pairs:
            if server not in packed and index not in taken:
                packed[server] = parts[index]
                taken.add(index)
        return packed


def _format_memory(count: float) -> str:
    return str(Quantity(int(count) * 10**9, Format.BINARY))

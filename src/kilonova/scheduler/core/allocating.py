"""Finds devices for all claims of a pod on one node, or says that there are none.

The search is complete: options in the order in which they are listed, for each the devices one
after the other, back where that leads nowhere. Devices that nothing tells apart are tried once.
Beyond what is usual on a node, each device that is looked at in vain is a step of a budget; once
that is exceeded, it is as if there were no devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.claims import (
    ALL,
    MOST_DEVICES,
    Allocation,
    ClaimAsk,
    Constraint,
    Device,
    DeviceId,
    Given,
    Option,
)
from kilonova.scheduler.core.deviceuse import Amounts, DeviceUse
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.core.search_budget import SearchBudget

_FREE_STEPS = 128
"""So many devices are looked at for nothing: some are always in use, or not what is wanted."""
_MOST_DEPTH = 400
"""Of devices and requests of one pod: each is a call within the one before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that would do for an option, and what of a shared one would be taken."""

    device: Device
    amounts: Amounts = ()


Candidates = Callable[[Option], Sequence[Candidate]]
"""The devices of a node that would do for an option, whoever has them."""


def allocate(
    asks: Sequence[ClaimAsk],
    candidates: Candidates,
    use: DeviceUse,
    node: str,
    budget: SearchBudget,
) -> list[Allocation] | None:
    """Devices for each of some claims on a node; None if not all can have theirs. `use` is as it
    was afterwards."""
    return _Search(asks, candidates, use, budget).allocations(node)


Kind = tuple[object, ...]


class _Search:
    """One search. `_chosen` are the devices of each claim so far."""

    def __init__(
        self,
        asks: Sequence[ClaimAsk],
        candidates: Candidates,
        use: DeviceUse,
        budget: SearchBudget,
    ) -> None:
        self._asks = asks
        self._use = use
        self._budget = budget
        self._free_steps = _FREE_STEPS
        self._chosen: list[list[tuple[Given, Device]]] = [[] for _ in asks]
        self._candidates = {
            option: _packed(candidates(option), use)
            for ask in asks
            for request in ask.requests
            for option in request
        }
        self._suits: dict[DeviceId, Kind] | None = None

    def allocations(self, node: str) -> list[Allocation] | None:
        if self._depth() > _MOST_DEPTH:
            self._budget.exceeded = True
            return None
        if not self._serve(0, 0):
            return None
        found: list[Allocation] = []
        for claim, chosen in enumerate(self._chosen):
            for given, _ in reversed(chosen):
                self._use.give_back(_key(claim), given)
            found.append(_allocation(chosen, node))
        return found

    def _depth(self) -> int:
        """How many calls are within each other, at most."""
        requests = [request for ask in self._asks for request in ask.requests]
        devices = sum(max(self._count(option) for option in request) for request in requests)
        return devices + len(requests) + len(self._asks)

    def _count(self, option: Option) -> int:
        return option.count if option.count != ALL else len(self._candidates[option])

    def _serve(self, claim: int, request: int) -> bool:
        """All requests from this one on."""
        if claim == len(self._asks):
            return True
        ask = self._asks[claim]
        if request == len(ask.requests):
            return self._serve(claim + 1, 0)
        for option in ask.requests[request]:
            count = self._count(option)
            if count and self._choose(claim, request, option, 0, count):
                return True
        return False

    def _choose(self, claim: int, request: int, option: Option, start: int, lacking: int) -> bool:
        """So many more devices for an option, and all that comes after."""
        if not lacking:
            return self._serve(claim, request + 1)
        if len(self._chosen[claim]) + lacking > MOST_DEVICES:
            return False
        candidates = self._candidates[option]
        in_vain: set[Kind] = set()
        for index in range(start, len(candidates) - lacking + 1):
            candidate = candidates[index]
            if in_vain and self._kind(candidate.device) in in_vain:
                continue
            if not self._take(claim, option, candidate):
                if not self._spend():
                    return False
                continue
            if self._choose(claim, request, option, index + 1, lacking - 1):
                return True
            given, device = self._chosen[claim].pop()
            self._use.give_back(_key(claim), given)
            if not self._spend():
                return False
            in_vain.add(self._kind(device))
        return False

    def _spend(self) -> bool:
        if self._free_steps:
            self._free_steps -= 1
            return True
        return self._budget.spend()

    def _take(self, claim: int, option: Option, candidate: Candidate) -> bool:
        device, chosen = candidate.device, self._chosen[claim]
        if not device.shared and any(given.device == device.id for given, _ in chosen):
            return False
        if not option.admin and not self._use.has_room(device, candidate.amounts):
            return False
        for constraint in self._asks[claim].constraints:
            if not _keeps(constraint, option, device, chosen):
                return False
        given = Given(option.name, device.id, option.admin, candidate.amounts)
        self._use.take(_key(claim), given)
        chosen.append((given, device))
        return True

    def _kind(self, device: Device) -> Kind:
        """What tells a device apart from others, for this search."""
        if device.consumes or device.shared:
            return device.id
        if self._suits is None:
            self._suits = self._known_suits()
        names = {each.attribute for ask in self._asks for each in ask.constraints}
        attributes = tuple(device.attribute(name) for name in sorted(names))
        return self._suits[device.id], self._use.is_touched(device), attributes

    def _known_suits(self) -> dict[DeviceId, Kind]:
        """By device, the options for which it would do."""
        suits: dict[DeviceId, Kind] = {}
        for number, candidates in enumerate(self._candidates.values()):
            for candidate in candidates:
                known = suits.get(candidate.device.id, ())
                suits[candidate.device.id] = (*known, number)
        return suits


def _key(claim: int) -> str:
    """A claim of a search among the holders of devices; no claim's name has no stroke."""
    return str(claim)


def _packed(candidates: Sequence[Candidate], use: DeviceUse) -> Sequence[Candidate]:
    """Devices of which a part is in use come first, so that others stay whole."""
    if not any(each.device.consumes or each.device.shared for each in candidates):
        return candidates
    return sorted(candidates, key=lambda each: not use.is_touched(each.device))


def _keeps(
    constraint: Constraint,
    option: Option,
    device: Device,
    chosen: Sequence[tuple[Given, Device]],
) -> bool:
    """Whether a device can join those chosen before."""
    if not constraint.concerns(option.name):
        return True
    value = device.attribute(constraint.attribute)
    if value is None:
        return False
    others = (
        other.attribute(constraint.attribute)
        for given, other in chosen
        if constraint.concerns(given.option)
    )
    if constraint.distinct:
        return all(value != other for other in others)
    return all(value == other for other in others)


def _allocation(chosen: Sequence[tuple[Given, Device]], node: str) -> Allocation:
    """Where all the devices can be used: on their node, else where all their terms hold."""
    devices = tuple(given for given, _ in chosen)
    labels: dict[Requirement, None] = {}
    names: dict[Requirement, None] = {}
    for _, device in chosen:
        if device.node or device.binds_to_node:
            return Allocation(devices, node)
        for term in device.terms:
            labels.update(dict.fromkeys(term.labels))
            names.update(dict.fromkeys(term.names))
    terms = (NodeTerm(tuple(labels), tuple(names)),) if labels or names else ()
    return Allocation(devices, terms=terms)

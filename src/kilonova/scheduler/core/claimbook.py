"""Which claims have which devices, and how many pods each node has some for.

A claim has its devices because a pod that uses it is **booked**, or because its allocation is
**written**: everybody sees it. What is written for pods that were all released since counts as free
again, though it is not yet unwritten; who writes the next allocation of such a device must wait.
Claims that several pods name couple nodes: who is booked first decides where the others may stand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.allocating import allocate
from kilonova.scheduler.core.claims import ALL, MOST_CONSUMERS, Allocation, ClaimAsk
from kilonova.scheduler.core.deviceuse import DeviceUse
from kilonova.scheduler.core.inventory import Inventory, Matches, Pool, PoolId
from kilonova.scheduler.core.labels import Flags, Labels, Rows
from kilonova.scheduler.core.search_budget import SearchBudget

Asks = tuple[ClaimAsk, ...]
Allocations = tuple[Allocation | None, ...]
"""What each claim of a pod has; None for one to which nothing is allocated."""
Uses = Iterable[tuple[str, Sequence[str], Allocations]]
"""Pods, the names of their claims, and what these have."""

T = TypeVar("T")

_SEARCH_STEPS = 20_000
"""Of the search for devices, on all nodes, in one gang's turn."""


@dataclass(frozen=True, slots=True)
class Written:
    """What everybody sees that a claim has, and the pods for which it is reserved."""

    allocation: Allocation
    consumers: frozenset[str] = frozenset()


class ClaimBook:
    """Devices and claims of a snapshot, whose names, rows and labels it looks at. What changes
    comes back as the rows to which it matters."""

    def __init__(self, names: list[str], rows: dict[str, int], labels: Labels) -> None:
        self.awake = False
        """Whether anything has to be counted."""
        self._reset(Inventory(names, rows, labels))

    def _reset(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._use = DeviceUse(inventory.devices, inventory.counters)
        self._published = DeviceUse(inventory.devices, inventory.counters)
        """What is written, whoever was released."""
        self._booked: dict[str, dict[Allocation, int]] = {}
        self._users: dict[str, dict[str, int]] = {}
        self._written: dict[str, Written] = {}
        self._freed: dict[str, int] = {}
        """Pods that were released, and how often."""
        self._holding: dict[str, set[Allocation]] = {}
        self._asked: set[str] = set()
        """Claims that somebody asked for by name: where they are matters to all nodes."""
        self.budget = SearchBudget(_SEARCH_STEPS)
        """Of all searches for devices until `renew_budget`."""

    def renew_budget(self) -> None:
        """Another gang's turn begins."""
        self.budget = SearchBudget(_SEARCH_STEPS)

    def copy(self, names: list[str], rows: dict[str, int], labels: Labels) -> "ClaimBook":
        """The same, which changes by itself from now on."""
        other = ClaimBook(names, rows, labels)
        other.awake = self.awake
        if self.awake:
            other._reset(self._inventory.copy(names, rows, labels))
            other._freed, other._asked = self._freed.copy(), self._asked.copy()
            other._booked = {claim: booked.copy() for claim, booked in self._booked.items()}
            other._users = {claim: users.copy() for claim, users in self._users.items()}
            for claim, written in self._written.items():
                other.put_claim(claim, written)
            for claim in self._booked:
                other._settle(claim)
        return other

    # What there is.

    def select_by(self, matches: Matches) -> None:
        """Takes who knows whether a device meets a selector."""
        self._inventory.matches = matches

    def put_pool(self, id: PoolId, pool: Pool | None) -> Iterable[int]:
        """Takes what is known of a pool now, None if it is gone."""
        self.awake = True
        devices = self._inventory.ids_of(id)
        if pool is not None:
            devices.update(each.id for each in pool.devices)
        holding = self._use.holders(devices)
        written = self._published.holders(devices)
        for claim in holding:
            for allocation in self._holding.pop(claim):
                self._use.let_go(claim, allocation)
        for claim in written:
            self._published.let_go(claim, self._written[claim].allocation)
        rows = self._inventory.put(id, pool)
        for claim in written:
            self._published.hold(claim, self._written[claim].allocation)
        for claim in holding:
            self._settle(claim)
        return rows

    def put_claim(self, name: str, written: Written | None) -> Iterable[int]:
        """Takes what everybody sees of a claim, None if it has nothing."""
        self.awake = True
        old = self._written.pop(name, None)
        if old is not None:
            self._published.let_go(name, old.allocation)
            for pod in old.consumers - (written.consumers if written is not None else frozenset()):
                self._freed.pop(pod, None)
        if written is not None:
            self._written[name] = written
            self._published.hold(name, written.allocation)
        return self._settle(name)

    def forget(self, row: int) -> None:
        """A node, or its labels, are others now."""
        self._inventory.forget(row)

    def allocation(self, claim: str) -> Allocation | None:
        """What a claim has, or will have when what was decided is written."""
        for allocation, count in self._booked.get(claim, {}).items():
            if count > 0:
                return allocation
        written = self._written.get(claim)
        return written.allocation if written is not None else None

    def may_be_written(self, claim: str, allocation: Allocation) -> bool:
        """Whether nothing of an allocation is written to other claims, unless it can be shared."""
        return self._published.could_hold(claim, allocation)

    def users(self, claim: str) -> set[str]:
        """The pods that are booked with a claim."""
        return {pod for pod, count in self._users.get(claim, {}).items() if count > 0}

    # Who has what.

    def book(self, uses: Uses) -> set[int]:
        """Pods came to use their claims."""
        return self._count(uses, 1)

    def release(self, uses: Uses, times: int = 1) -> set[int]:
        """Pods went, and what they had is free; with a negative number, they did not go after
        all."""
        uses = list(uses)
        for pod, _, _ in uses:
            _add(self._freed, pod, times)
        return self._count(uses, -times)

    def unbook(self, uses: Uses) -> set[int]:
        """Pods never came."""
        return self._count(uses, -1)

    def overdrawn(self, allocations: Iterable[Allocations]) -> bool:
        """Whether more is held than there is, of something that one of the allocations has."""
        return self._use.overdrawn(each for some in allocations for each in some if each)

    def _count(self, uses: Uses, sign: int) -> set[int]:
        rows: set[int] = set()
        for pod, claims, allocations in uses:
            for claim, allocation in zip(claims, allocations, strict=True):
                users = self._users.setdefault(claim, {})
                _add(users, pod, sign)
                if not users:
                    del self._users[claim]
                if allocation is not None:
                    booked = self._booked.setdefault(claim, {})
                    _add(booked, allocation, sign)
                    if not booked:
                        del self._booked[claim]
                rows.update(self._settle(claim))
        return rows

    def _settle(self, claim: str) -> Iterable[int]:
        """Counts as a claim's own what it has now, and nothing else."""
        wanted = {each for each, count in self._booked.get(claim, {}).items() if count > 0}
        written = self._written.get(claim)
        if written is not None and not self._is_freed(written):
            wanted.add(written.allocation)
        holding = self._holding.get(claim, set())
        for allocation in holding - wanted:
            self._use.let_go(claim, allocation)
        for allocation in wanted - holding:
            self._use.hold(claim, allocation)
        if wanted:
            self._holding[claim] = wanted
        else:
            self._holding.pop(claim, None)
        changed = wanted ^ holding
        if claim in self._asked:
            return self._inventory.looked_at()
        return self._inventory.rows_seeing(
            given.device for each in changed for given in each.devices
        )

    def _is_freed(self, written: Written) -> bool:
        consumers = written.consumers
        return bool(consumers) and all(self._freed.get(pod, 0) > 0 for pod in consumers)

    # Where there is room.

    def couples(self, asks: Asks) -> bool:
        """Whether a pod that is booked with such claims changes the room of other nodes."""
        return bool(asks) and (self._inventory.is_coupled or bool(self.undecided(asks)))

    def undecided(self, asks: Asks) -> list[str]:
        """Claims with a name that have nothing yet: who is booked first decides for the others."""
        return [ask.name for ask in asks if ask.name and self.allocation(ask.name) is None]

    def rooms(self, asks: Asks, rows: Rows, most: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many pods with such claims each row has devices for, up to so many."""
        self._asked.update(ask.name for ask in asks if ask.name)
        limits = zip(rows.tolist(), most.tolist(), strict=True)
        return np.array([self._room(asks, row, limit) for row, limit in limits], np.int64)

    def give(self, asks: Asks, row: int, count: int) -> list[Allocations]:
        """What the claims of so many pods get on a row that has room for them."""
        known = {ask.name: self.allocation(ask.name) for ask in asks if ask.name}
        # There is room: whoever found it may have spent what was left for the search.
        served = self._served(self._lacking(asks), row, count, SearchBudget(_SEARCH_STEPS))
        given: list[Allocations] = []
        for pod in range(count):
            fresh = iter(served[pod] if pod < len(served) else ())
            allocations: list[Allocation] = []
            for ask in asks:
                allocation = known.get(ask.name) or next(fresh)
                if ask.name:
                    known[ask.name] = allocation
                allocations.append(allocation)
            given.append(tuple(allocations))
        return given

    def elsewhere(self, asks: Asks, rows: Rows) -> Flags:
        """Where devices that are written to one of the claims can not be used."""
        self._asked.update(ask.name for ask in asks if ask.name)
        had = [self._written[ask.name].allocation for ask in asks if ask.name in self._written]
        return np.array(
            [any(not self._reaches(each, row) for each in had) for row in rows.tolist()], np.bool_
        )

    def unable(self, asks: Asks, rows: Rows) -> Flags:
        """Where there would be no devices even if nobody had any."""
        lacking = [ask for ask in asks if ask.name not in self._written]
        unused = DeviceUse(self._inventory.devices, self._inventory.counters)
        return np.array(
            [self._allocate(lacking, row, unused, self.budget) is None for row in rows.tolist()],
            np.bool_,
        )

    def _room(self, asks: Asks, row: int, most: int) -> int:
        self._inventory.on(row)
        for ask in asks:
            if ask.name:
                most = min(most, MOST_CONSUMERS - self._consumers(ask.name))
                allocation = self.allocation(ask.name)
                if allocation is not None and not (
                    self._reaches(allocation, row) and self._use.could_hold(ask.name, allocation)
                ):
                    return 0
        lacking = self._lacking(asks)
        if most <= 0 or not lacking:
            return max(most, 0)
        served = len(self._served(lacking, row, most, self.budget))
        return most if served and all(ask.name for ask in lacking) else served

    def _lacking(self, asks: Asks) -> list[ClaimAsk]:
        return [ask for ask in asks if not ask.name or self.allocation(ask.name) is None]

    def _served(
        self, lacking: list[ClaimAsk], row: int, most: int, budget: SearchBudget
    ) -> list[list[Allocation]]:
        """What claims of one pod after the other get, as long as there are devices. Those that
        have a name get it once."""
        served: list[list[Allocation]] = []
        held: list[tuple[str, Allocation]] = []
        own = [ask for ask in lacking if not ask.name]
        wanted = lacking
        while wanted and len(served) < most:
            found = self._allocate(wanted, row, self._use, budget)
            if found is None:
                break
            for number, allocation in enumerate(found):
                held.append((f"{len(served)}.{number}", allocation))
                self._use.hold(*held[-1])
            served.append(found)
            wanted = own
        for claim, allocation in held:
            self._use.let_go(claim, allocation)
        return served

    def _allocate(
        self, asks: Sequence[ClaimAsk], row: int, use: DeviceUse, budget: SearchBudget
    ) -> list[Allocation] | None:
        inventory = self._inventory
        if _wants_all(asks) and not inventory.is_settled(row):
            return None
        return allocate(
            asks,
            lambda option: inventory.suiting(option, row),
            use,
            inventory.name(row),
            budget,
        )

    def _reaches(self, allocation: Allocation, row: int) -> bool:
        return self._inventory.reaches(allocation.node, allocation.terms, row)

    def _consumers(self, claim: str) -> int:
        """How many pods use a claim."""
        written = self._written.get(claim)
        consumers: frozenset[str] = written.consumers if written is not None else frozenset()
        return len(self.users(claim) | consumers)


def _wants_all(asks: Iterable[ClaimAsk]) -> bool:
    return any(
        option.count == ALL for ask in asks for request in ask.requests for option in request
    )


def _add(counts: dict[T, int], key: T, by: int) -> None:
    """Counts may be below nothing for a moment: trials are taken back in an order of their own."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)

"""Many GPUs with MIG as arrays: what moving an instance gains and costs. NumPy over the masks.

A GPU's state is its mask of held slices; GPUs in the same state are alike. The **value** of a state
is the remaining value for the demand: 1 for an empty GPU, 0 for a full one.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.mig import MASK_COUNT, MigGeometry, Slot
from kilonova.scheduler.core.gpu.mig import ProfileDemand, best_starts, remaining_value

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class HeldInstance(msgspec.Struct, frozen=True):
    """An instance that a pod has."""

    slot: Slot
    holder: str
    is_movable: bool = True
    """Whether the pod may be evicted, to be restarted elsewhere."""
    restart_seconds: float = 60.0
    """How much work is lost when it is: since its last checkpoint, and the start."""


class FleetGpu(msgspec.Struct, frozen=True):
    """A GPU in MIG mode, or one that may be put into it."""

    uuid: str
    geometry: MigGeometry
    held: tuple[HeldInstance, ...] = ()
    is_frozen: bool = False
    """Nothing is moved to or from it: it is unhealthy, or was changed a moment ago."""


class Migration(msgspec.Struct, frozen=True):
    """Move a holder's instance to another place."""

    holder: str
    source: str
    before: Slot
    target: str
    after: Slot


class RepackState:
    """The GPUs of one geometry while a plan is made: moves are applied, or taken back."""

    def __init__(
        self, gpus: Sequence[FleetGpu], geometry: MigGeometry, demand: ProfileDemand
    ) -> None:
        self._gpus = gpus
        self._geometry = geometry
        self._values: Floats = remaining_value(geometry, demand)
        names = [profile.name for profile in geometry.profiles]
        self._profile_ids = {name: number for number, name in enumerate(names)}
        tables = [best_starts(geometry, name, demand) for name in names]
        self._losses: Floats = np.array(
            [[np.inf if place is None else place[0] for place in table] for table in tables]
        )
        self._starts = [[-1 if place is None else place[2] for place in table] for table in tables]
        held = [
            (number, each)
            for number, gpu in enumerate(gpus)
            for each in gpu.held
            if (geometry.profile(each.slot.profile)) is not None
        ]
        self.instances = [each for _, each in held]
        self._home: Integers = np.array([number for number, _ in held], np.int64)
        self._first_home = self._home.copy()
        self._profile: Integers = np.array(
            [self._profile_ids[self._name(each.slot)] for _, each in held], np.int64
        )
        self._start = [each.slot.start for _, each in held]
        self._bits: Integers = np.array(
            [self._bits_at(each.slot.profile, each.slot.start) for _, each in held], np.int64
        )
        self._order: dict[int, None] = {}
        self._is_frozen = np.array([gpu.is_frozen for gpu in gpus], np.bool_)
        self._movable = np.array(
            [each.is_movable and not gpus[number].is_frozen for number, each in held], np.bool_
        )
        self.masks: Integers = np.zeros(len(gpus), np.int64)
        np.bitwise_or.at(self.masks, self._home, self._bits)
        self._costs: Floats = np.array(
            [
                each.restart_seconds * (geometry.device_share(each.slot.profile) or 0)
                for each in self.instances
            ]
        )

    @property
    def value(self) -> float:
        """The remaining value of all GPUs."""
        return float(self._values[self.masks].sum())

    def cost(self, instance: int) -> float:
        """What moving an instance costs, in seconds of a whole GPU."""
        return float(self._costs[instance])

    def instances_on(self, gpu: int) -> list[int]:
        """The instances on a GPU, by number."""
        return np.flatnonzero(self._home == gpu).tolist()

    def is_movable(self, instance: int) -> bool:
        return bool(self._movable[instance])

    def drain_order(self, threshold: float) -> Iterator[int]:
        """GPUs of which a smaller share than the threshold is held, the least first."""
        shares = np.zeros(len(self._gpus))
        for number, each in enumerate(self.instances):
            shares[self._home[number]] += self._geometry.device_share(each.slot.profile) or 0
        for gpu in np.argsort(shares, kind="stable").tolist():
            if 0 < shares[gpu] < threshold and not self._is_frozen[gpu]:
                yield gpu

    def best_moves(self, benefit_seconds: float, ratio: float) -> Iterator[tuple[int, int, int]]:
        """Single moves that pay off, best first: instance, target GPU, start.

        Valid for the state as it is: at most one of them may be applied before asking again.
        """
        if not self.instances:
            return
        before = self.masks[self._home]
        without = before & ~self._bits
        gains = self._values[without] - self._values[before]
        by_profile = self._best_targets()
        losses = np.array([loss for loss, _ in by_profile])[self._profile]
        within = self._losses[self._profile, without]
        nets = gains - np.minimum(losses, within)
        needed = ratio * self._costs / benefit_seconds
        worthwhile = self._movable & (nets > np.maximum(needed, 1e-9))
        candidates = np.flatnonzero(worthwhile)
        order = candidates[np.argsort(-(nets[candidates] - needed[candidates]), kind="stable")]
        for instance in order.tolist():
            profile, home = int(self._profile[instance]), int(self._home[instance])
            if losses[instance] < within[instance]:
                target = self._find_gpu(by_profile[profile][1], home)
                if target is not None:
                    yield instance, target, self._starts[profile][int(self.masks[target])]
                    continue
            # No other GPU is in that state: elsewhere on its own.
            if gains[instance] - within[instance] > max(needed[instance], 1e-9):
                yield instance, home, self._starts[profile][without[instance]]

    def best_target(self, instance: int, excluded: set[int]) -> tuple[int, int] | None:
        """The GPU, and the start there, that loses least; not one of the excluded or empty ones."""
        profile = int(self._profile[instance])
        losses = np.where(
            self._is_frozen | (self.masks == 0), np.inf, self._losses[profile, self.masks]
        )
        losses[list(excluded)] = np.inf
        target = int(losses.argmin())
        if np.isinf(losses[target]):
            return None
        return target, self._starts[profile][int(self.masks[target])]

    def move(self, instance: int, target: int, start: int) -> tuple[int, int]:
        """Move an instance; returns where it was, for moving it back."""
        home, was = int(self._home[instance]), self._start[instance]
        self.masks[home] &= ~self._bits[instance]
        name = self._geometry.profiles[int(self._profile[instance])].name
        self._bits[instance] = self._bits_at(name, start)
        self.masks[target] |= self._bits[instance]
        self._home[instance] = target
        self._start[instance] = start
        self._order.pop(instance, None)
        self._order[instance] = None
        return home, was

    def migrations(self) -> tuple[Migration, ...]:
        """All instances that are not where they were, in the order of their moves: each finds its
        place free when those before it have moved."""
        moved = [
            number
            for number in self._order
            if self._home[number] != self._first_home[number]
            or self._start[number] != self.instances[number].slot.start
        ]
        return tuple(self._describe_move(number) for number in moved)

    def _describe_move(self, number: int) -> Migration:
        instance = self.instances[number]
        name = self._name(instance.slot)
        return Migration(
            instance.holder,
            self._gpus[int(self._first_home[number])].uuid,
            Slot(name, instance.slot.start),
            self._gpus[int(self._home[number])].uuid,
            Slot(name, self._start[number]),
        )

    def _best_targets(self) -> list[tuple[float, int]]:
        """For each profile, the least loss on any GPU, and the mask of such a GPU."""
        usable = self.masks[~self._is_frozen]
        present = np.bincount(usable, minlength=MASK_COUNT) > 0
        present[0] = False  # an empty GPU is worth most as a whole
        losses = np.where(present, self._losses, np.inf)
        best = losses.argmin(axis=1)
        return [(float(losses[row, mask]), int(mask)) for row, mask in enumerate(best.tolist())]

    def _find_gpu(self, mask: int, other_than: int) -> int | None:
        found = np.flatnonzero((self.masks == mask) & ~self._is_frozen).tolist()
        return next((each for each in found if each != other_than), None)

    def _name(self, slot: Slot) -> str:
        profile = self._geometry.profile(slot.profile)
        return slot.profile if profile is None else profile.name

    def _bits_at(self, name: str, start: int) -> int:
        profile = self._geometry.profile(name)
        return 0 if profile is None else profile.mask_at(start)

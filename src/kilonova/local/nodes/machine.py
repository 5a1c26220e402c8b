"""A simulated machine while it is played: how it behaves, and what is only true meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kilonova.api.gpus import Assignment
from kilonova.local.nodes.faults import WELL, Faults
from kilonova.local.nodes.fleet import Delay, NodeShape, delay, seconds
from kilonova.local.nodes.holdings import Holding, with_any, with_given
from kilonova.local.nodes.objects import MOST_PODS, pod_address

_NO_DELAY = Delay(0.0, 0.0)


@dataclass(slots=True)
class Machine:
    """One node. Lives are mean times in seconds, 0 for ever."""

    shape: NodeShape
    pull: Delay
    start: Delay
    stop: Delay
    pod_life: float
    node_life: float
    outage: float
    faults: Faults = WELL
    _addresses: dict[str, str] = field(default_factory=dict[str, str])
    _held: dict[str, Holding] = field(default_factory=dict[str, Holding])
    """Which pod has which GPUs."""

    @classmethod
    def of(cls, shape: NodeShape) -> "Machine":
        group, failures = shape.group, shape.group.failures
        return cls(
            shape,
            delay(group.pull) if group.pull else _NO_DELAY,
            delay(group.start),
            delay(group.stop),
            seconds(failures.pod_life) if failures.pod_life else 0.0,
            seconds(failures.node_life) if failures.node_life else 0.0,
            seconds(failures.outage),
        )

    @property
    def out(self) -> bool:
        return self.faults.out

    @property
    def gpu_count(self) -> int:
        return self.shape.group.gpu.count if self.shape.group.gpu is not None else 0

    @property
    def healthy_gpus(self) -> int:
        """How many of its GPUs are there."""
        return len(self._healthy())

    def admit(self, uid: str, count: int, given: tuple[Assignment, ...]) -> bool:
        """Let a pod start with its GPUs; False if they are lost, too few, or had by others."""
        if uid not in self._held:
            healthy = self._healthy()
            if any(each.index not in healthy for each in given):
                return False
        elif self.lost_gpus_of(uid):
            return False
        return self._keep(uid, count, given, self._healthy())

    def keep_gpus(self, uid: str, count: int, given: tuple[Assignment, ...]) -> None:
        """A pod that another process started has the GPUs that it was given, or so many: lost ones
        too where the healthy are too few, for it may have lost them since."""
        healthy = self._healthy()
        lost = [gpu for gpu in range(self.gpu_count) if gpu not in healthy]
        self._keep(uid, count, given, [*healthy, *lost])

    def _keep(
        self, uid: str, count: int, given: tuple[Assignment, ...], free: Sequence[int]
    ) -> bool:
        """A pod has the GPUs that it was given, or so many; False if others have them."""
        if uid in self._held or not (count or given):
            return True
        found = (
            with_given(self._held, uid, given, free)
            if given
            else with_any(self._held, uid, count, free)
        )
        if found is None:
            return False
        self._held = found
        return True

    def holders(self, gpu: int) -> set[str]:
        """The uids of the pods that have this GPU, or some of it."""
        return {uid for uid, holding in self._held.items() if holding.has(gpu)}

    def gpus_of(self, uid: str) -> list[int]:
        """The GPUs that a pod has, or has some of."""
        holding = self._held.get(uid)
        return sorted({each.index for each in holding.assignments}) if holding is not None else []

    def lost_gpus_of(self, uid: str) -> list[int]:
        """Those of them that are lost."""
        lost = self.faults.lost_gpus
        return [gpu for gpu in self.gpus_of(uid) if gpu in lost] if lost else []

    def keep_address(self, uid: str, address: str) -> None:
        """A pod has that address: nobody else gets it."""
        self._addresses[uid] = address

    def release(self, uid: str) -> None:
        """A pod needs its address and its GPUs no longer."""
        self._addresses.pop(uid, None)
        self._held.pop(uid, None)

    def address_for(self, uid: str) -> str:
        """The pod's address; the first free one, if it has none yet."""
        known = self._addresses.get(uid)
        if known is None:
            taken = set(self._addresses.values())
            numbers = (pod_address(self.shape.number, n) for n in range(1, MOST_PODS + 1))
            known = next((each for each in numbers if each not in taken), "")
            self._addresses[uid] = known
        return known

    def _healthy(self) -> list[int]:
        return [gpu for gpu in range(self.gpu_count) if gpu not in self.faults.lost_gpus]

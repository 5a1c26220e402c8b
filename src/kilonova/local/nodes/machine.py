"""A simulated machine while it is played: how it behaves, and what is only true meanwhile."""

from dataclasses import dataclass, field

from kilonova.local.nodes.faults import WELL, Faults
from kilonova.local.nodes.fleet import Delay, NodeShape, delay, seconds
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
    _gpus: dict[int, str] = field(default_factory=dict[int, str])
    """Which pod has which GPU."""

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
        lost = sum(gpu < self.gpu_count for gpu in self.faults.lost_gpus)
        return self.gpu_count - lost

    def take_gpus(self, uid: str, count: int) -> bool:
        """Give a pod so many GPUs, the first that are free; False if there are too few."""
        if uid in self._gpus.values() or not count:
            return True
        free = [
            gpu
            for gpu in range(self.gpu_count)
            if gpu not in self._gpus and gpu not in self.faults.lost_gpus
        ]
        if len(free) < count:
            return False
        self._gpus.update(dict.fromkeys(free[:count], uid))
        return True

    def holder(self, gpu: int) -> str | None:
        """The uid of the pod that has this GPU."""
        return self._gpus.get(gpu)

    def keep_address(self, uid: str, address: str) -> None:
        """A pod has that address: nobody else gets it."""
        self._addresses[uid] = address

    def release(self, uid: str) -> None:
        """A pod needs its address and its GPUs no longer."""
        self._addresses.pop(uid, None)
        if uid in self._gpus.values():
            self._gpus = {gpu: holder for gpu, holder in self._gpus.items() if holder != uid}

    def address_for(self, uid: str) -> str:
        """The pod's address; the first free one, if it has none yet."""
        known = self._addresses.get(uid)
        if known is None:
            taken = set(self._addresses.values())
            numbers = (pod_address(self.shape.number, n) for n in range(1, MOST_PODS + 1))
            known = next((each for each in numbers if each not in taken), "")
            self._addresses[uid] = known
        return known

"""A simulated machine while it is played: how it behaves, and what is only true meanwhile."""

from dataclasses import dataclass, field

from kilonova.local.nodes.fleet import Delay, NodeShape, delay, seconds
from kilonova.local.nodes.objects import MOST_PODS, pod_address


@dataclass(slots=True)
class Machine:
    """One node. Lives are mean times in seconds, 0 for ever."""

    shape: NodeShape
    start: Delay
    stop: Delay
    pod_life: float
    node_life: float
    outage: float
    out: bool = False
    _addresses: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, shape: NodeShape) -> "Machine":
        group, failures = shape.group, shape.group.failures
        return cls(
            shape,
            delay(group.start),
            delay(group.stop),
            seconds(failures.pod_life) if failures.pod_life else 0.0,
            seconds(failures.node_life) if failures.node_life else 0.0,
            seconds(failures.outage),
        )

    def keep_address(self, uid: str, address: str) -> None:
        """A pod has that address: nobody else gets it."""
        self._addresses[uid] = address

    def free_address(self, uid: str) -> None:
        """A pod needs its address no longer."""
        self._addresses.pop(uid, None)

    def address_for(self, uid: str) -> str:
        """The pod's address; the first free one, if it has none yet."""
        known = self._addresses.get(uid)
        if known is None:
            taken = set(self._addresses.values())
            numbers = (pod_address(self.shape.number, n) for n in range(1, MOST_PODS + 1))
            known = next((each for each in numbers if each not in taken), "")
            self._addresses[uid] = known
        return known

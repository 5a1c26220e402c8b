"""The annotation by which a node's agent learns which MIG instances the node should have in stock.

A node's `gpu.kilonova.dev/mig-strategy` is a JSON object, written by the controller of
MIGStrategies:

    {"name": "inference-optimized", "generation": 3, "gpus": [0, 1, 2, 3],
     "profiles": {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1},
     "dynamic": true, "interval": 300, "minUtilization": 0.3,
     "evictsPods": true, "uid": "2c1…"}

`name`, `generation` and `uid` are those of the MIGStrategy. `gpus` are the indices of the devices
that it is for; without it, all with MIG. `profiles` are fractions of the capacity of these devices,
counted in memory slices, all devices together; what is left of 1 stays free. If `dynamic` is true,
instances that no pod uses may be destroyed and replaced, at most once in `interval` seconds, and
only while a smaller part than `minUtilization` of the instances is in use. If `evictsPods` is true,
too, the scheduler evicts pods whose instances should be elsewhere, at most once in `interval`
seconds for all nodes of the strategy. Without the annotation there is no stock, and no instance is
destroyed because of that. Unknown fields are ignored.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kilonova.api.gpu.annotations import Count, InvalidAnnotation

MIG_STRATEGY = "gpu.kilonova.dev/mig-strategy"

DEFAULT_INTERVAL = 300.0
DEFAULT_MIN_UTILIZATION = 0.3


class NodeMigStrategy(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The strategy that is assigned to a node."""

    name: str
    generation: int = 0
    profiles: Annotated[dict[str, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=32)] = {}
    gpus: tuple[Count, ...] | None = None
    dynamic: bool = False
    interval: Annotated[float, Meta(ge=0)] = DEFAULT_INTERVAL
    """Seconds."""
    min_utilization: Annotated[float, Meta(ge=0, le=1)] = DEFAULT_MIN_UTILIZATION
    evicts_pods: bool = False
    uid: str = ""
    """Where pods are evicted: events name it."""

    def includes(self, index: int) -> bool:
        """Whether it is for the device of an index."""
        return self.gpus is None or index in self.gpus


def format_mig_strategy(strategy: NodeMigStrategy) -> str:
    """Format the annotation's value; equal strategies have equal values."""
    return msgspec.json.encode(strategy, order="deterministic").decode()


def parse_mig_strategy(text: str) -> NodeMigStrategy | InvalidAnnotation:
    """Parse the annotation's value."""
    try:
        return msgspec.json.decode(text, type=NodeMigStrategy)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return InvalidAnnotation(MIG_STRATEGY, str(error))

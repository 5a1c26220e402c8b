"""Devices that drivers publish, and claims to them.

A **device** has attributes, capacity and taints, and may draw on **counters** that it shares with
other devices: a whole GPU and its slices draw on the same ones. A **claim** has requests; each
request lists **options**, of which the first that can be had is taken. What a claim gets is its
**allocation**, which says where the devices can be used. Amounts are in billionths of a unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kilonova.scheduler.core.requirements import NodeTerm
from kilonova.scheduler.core.taints import Taint, Toleration

MOST_DEVICES = 32
"""So many devices fit into one allocation."""
MOST_CONSUMERS = 256
"""So many pods may use one claim."""
ALL = 0
"""As a count: every device that matches."""

T = TypeVar("T")


class DeviceId(NamedTuple):
    """Which device it is; names are unique within a pool of a driver."""

    driver: str
    pool: str
    name: str


class Counter(NamedTuple):
    """One counter of a set that devices of a pool draw on."""

    driver: str
    pool: str
    set: str
    name: str


class Attribute(NamedTuple):
    """What is known of a device: values of different kinds are never equal."""

    kind: str
    value: bool | int | str


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much there is of something, and how much of it can be asked for at a time."""

    value: int
    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()
    """The only amounts there are, in order."""

    def consumed(self, asked: int | None) -> int | None:
        """What who asks for so much really takes; None if that can not be had."""
        if asked is None:
            return self.value if self.default is None else self.default
        if asked == self.default:
            return asked
        amount = self._rounded_up(asked)
        if self.maximum is not None and amount > self.maximum:
            return None
        return None if self.values and amount not in self.values else amount

    def _rounded_up(self, asked: int) -> int:
        if self.values:
            return next((each for each in self.values if asked <= each), asked)
        if self.minimum is None:
            return asked
        if asked <= self.minimum or not self.step:
            return max(asked, self.minimum)
        return self.minimum + -(-(asked - self.minimum) // self.step) * self.step


@dataclass(frozen=True, slots=True)
class Device:
    """A device. It can be used on `node`, else where one of `terms` holds, else everywhere."""

    id: DeviceId
    node: str = ""
    terms: tuple[NodeTerm, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    capacity: Mapping[str, Capacity] = field(default_factory=dict[str, Capacity])
    taints: tuple[Taint, ...] = ()
    consumes: tuple[tuple[Counter, int], ...] = ()
    shared: bool = False
    """Several claims may have a part of its capacity each."""
    binds_to_node: bool = False
    """Wherever it could be used before, afterwards it can only where its first user is."""

    def attribute(self, name: str) -> Attribute | None:
        return qualified(self.attributes, name, self.id.driver)


def qualified(known: Mapping[str, T], name: str, driver: str) -> T | None:
    """What is known under a name; a name without domain is one of the driver's own."""
    found = known.get(name)
    if found is not None:
        return found
    domain, stroke, plain = name.partition("/")
    if not stroke:
        return known.get(f"{driver}/{name}")
    return known.get(plain) if domain == driver else None


@dataclass(frozen=True, slots=True)
class Option:
    """Devices that would do for a request: so many that meet all selectors.

    With `admin`, devices are used beside those who have them.
    """

    name: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    resource: str = ""
    """What a device of it counts as in queues; nothing, if empty."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of some requests, or all, have the same value of an attribute, or all different."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def concerns(self, option: str) -> bool:
        """Whether devices of an option have to keep to it."""
        request = option.partition("/")[0]
        return not self.requests or option in self.requests or request in self.requests


@dataclass(frozen=True, slots=True)
class ClaimAsk:
    """What a claim asks for.

    One that a pod has for itself, and that nothing was allocated to, has no name here: pods that
    ask for the same are equal. Others are known by their name, NAMESPACE/NAME.
    """

    requests: tuple[tuple[Option, ...], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """A device that a claim has, or of one that is shared, so much of its capacity."""

    option: str
    device: DeviceId
    admin: bool = False
    consumed: tuple[tuple[str, int], ...] = ()
    share: str = field(default="", compare=False)
    """Which of the parts of a shared device it is."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim has, and where it can be used: on `node`, else where the term holds, else
    everywhere."""

    devices: tuple[Given, ...] = ()
    node: str = ""
    terms: tuple[NodeTerm, ...] = ()

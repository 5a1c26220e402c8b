"""What claimed devices count in queues.

A device counts as one of the resource that its class stands for, and nothing where it is used
beside those who have it. Before there are devices, a request counts as the most that any of its
options would; one for all devices of a node as one, as nobody knows yet how many that are. Once
there are, every device counts.

A claim that several pods use counts once, with the first of them that still has a place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kilonova.scheduler.core.claims import ALL, Allocation, ClaimAsk, Option
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.queues import Amounts
from kilonova.scheduler.core.snapshot import GPU, Booking


def asked_by(ask: ClaimAsk) -> Amounts:
    """What a claim without devices counts in a queue."""
    total: dict[str, int] = {}
    for request in ask.requests:
        most: dict[str, int] = {}
        for option in request:
            if option.resource and not option.admin:
                count = 1 if option.count == ALL else option.count
                most[option.resource] = max(most.get(option.resource, 0), count * _unit(option))
        _add(total, most)
    return total


def had_by(ask: ClaimAsk, allocation: Allocation | None) -> Amounts:
    """What a claim counts in a queue, by the devices that it has."""
    if allocation is None:
        return asked_by(ask)
    options = {option.name: option for request in ask.requests for option in request}
    total: dict[str, int] = {}
    for given in allocation.devices:
        option = options.get(given.option)
        if option is not None and option.resource and not given.admin:
            _add(total, {option.resource: _unit(option)})
    return total


def by_claim(booking: Booking) -> Iterator[tuple[str, Amounts]]:
    """What each claim of a pod counts, and its name, if others may use it too."""
    asks = booking.shape.claims
    had = booking.claims or (None,) * len(asks)
    for ask, allocation in zip(asks, had, strict=True):
        yield ask.name, had_by(ask, allocation)


@dataclass(frozen=True, slots=True)
class Successor:
    """A pod with which a claim counts from now on."""

    gang: str
    pod: str
    amounts: Amounts


class Sharers:
    """Who uses claims that have a name, in the order in which they came."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, Successor]] = {}
        self._claims: dict[str, list[str]] = {}

    def copy(self) -> "Sharers":
        """The same, which changes by itself from now on."""
        other = Sharers()
        other._users = {claim: dict(users) for claim, users in self._users.items()}
        other._claims = {pod: list(claims) for pod, claims in self._claims.items()}
        return other

    def has(self, pod: str) -> bool:
        """Whether a pod uses a claim that has a name."""
        return pod in self._claims

    def counts(self, claim: str) -> bool:
        """Whether a claim counts with some pod."""
        return claim in self._users

    def join(self, claim: str, gang: str, pod: str, amounts: Amounts) -> None:
        """A pod comes to use a claim."""
        self._users.setdefault(claim, {})[pod] = Successor(gang, pod, amounts)
        self._claims.setdefault(pod, []).append(claim)

    def leave(self, pod: str) -> list[Successor]:
        """A pod uses its claims no longer: those with which they count now instead."""
        found: list[Successor] = []
        for claim in self._claims.pop(pod, ()):
            users = self._users[claim]
            counted = next(iter(users)) == pod
            del users[pod]
            if not users:
                del self._users[claim]
            elif counted:
                found.append(next(iter(users.values())))
        return found


def _unit(option: Option) -> int:
    return WHOLE if option.resource == GPU else 1


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount

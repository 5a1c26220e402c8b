"""The addresses of this node's pods: on loopback, a network of 254 for each data folder."""

from hashlib import sha256
from ipaddress import IPv4Network
from pathlib import Path

_ALL = IPv4Network("127.64.0.0/11")
_PREFIX = 24


def pod_network(data: Path) -> IPv4Network:
    """The network of the cluster on a data folder: always the same, and seldom another's."""
    digest = sha256(str(data.resolve()).encode()).digest()
    count = 1 << (_PREFIX - _ALL.prefixlen)
    number = int.from_bytes(digest[:8]) % count
    first = int(_ALL.network_address) + (number << (32 - _PREFIX))
    return IPv4Network((first, _PREFIX))


class Addresses:
    """Who has which address of a network. Those who left go to the back of the queue."""

    def __init__(self, network: IPv4Network) -> None:
        self._free = dict.fromkeys(map(str, network.hosts()))
        self._taken: dict[str, str] = {}

    def of(self, uid: str) -> str:
        """The pod's address; empty if it has none."""
        return self._taken.get(uid, "")

    def keep(self, uid: str, address: str) -> bool:
        """A pod has that address already; whether it may go on with it."""
        if self._taken.get(uid) == address:
            return True
        if uid in self._taken or address not in self._free:
            return False
        del self._free[address]
        self._taken[uid] = address
        return True

    def take(self, uid: str) -> str | None:
        """The pod's address, a new one if it has none; None when there is none left."""
        known = self._taken.get(uid)
        if known is None and self._free:
            known = next(iter(self._free))
            self.keep(uid, known)
        return known

    def free(self, uid: str) -> None:
        """A pod needs its address no longer."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._free[address] = None

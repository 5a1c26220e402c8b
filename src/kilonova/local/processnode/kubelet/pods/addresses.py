"""Pod addresses on loopback: a network of 254 addresses per data directory."""

from hashlib import sha256
from ipaddress import IPv4Network
from pathlib import Path

_POD_NETWORKS = IPv4Network("127.64.0.0/11")
_PREFIX = 24


def select_pod_network(data: Path) -> IPv4Network:
    """The network of the cluster in a data directory: stable, and seldom shared with another."""
    digest = sha256(str(data.resolve()).encode()).digest()
    count = 1 << (_PREFIX - _POD_NETWORKS.prefixlen)
    number = int.from_bytes(digest[:8]) % count
    first = int(_POD_NETWORKS.network_address) + (number << (32 - _PREFIX))
    return IPv4Network((first, _PREFIX))


class AddressAllocator:
    """Assigns the addresses of a network. Released addresses are reused last."""

    def __init__(self, network: IPv4Network) -> None:
        self._available = dict.fromkeys(map(str, network.hosts()))
        self._allocated: dict[str, str] = {}

    def get(self, uid: str) -> str:
        """The pod's address; empty if it has none."""
        return self._allocated.get(uid, "")

    def reserve(self, uid: str, address: str) -> bool:
        """Restore an address from before a restart; returns whether the pod may keep it."""
        if self._allocated.get(uid) == address:
            return True
        if uid in self._allocated or address not in self._available:
            return False
        del self._available[address]
        self._allocated[uid] = address
        return True

    def allocate(self, uid: str) -> str | None:
        """The pod's address, a new one if it has none; None if no address is free."""
        address = self._allocated.get(uid)
        if address is None and self._available:
            address = next(iter(self._available))
            self.reserve(uid, address)
        return address

    def release(self, uid: str) -> None:
        """Release the pod's address."""
        address = self._allocated.pop(uid, None)
        if address is not None:
            self._available[address] = None

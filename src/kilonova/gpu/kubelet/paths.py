"""Where the kubelet has its sockets, and where it looks for those of plugins."""

from dataclasses import dataclass
from pathlib import Path

MAX_SOCKET_PATH = 107
"""Bytes of the path of a unix socket."""


class SocketPathTooLong(ValueError):
    """A unix socket cannot have so long a path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has {len(bytes(path))} bytes: the path of a socket may have "
            f"{MAX_SOCKET_PATH}; choose a shorter kubelet folder"
        )


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """The kubelet's folder: `root` as this process sees it, `seen` as the kubelet does."""

    root: Path = Path("/var/lib/kubelet")
    seen: str = "/var/lib/kubelet"

    @property
    def device_plugins(self) -> Path:
        """The folder of the sockets of device plugins. The kubelet empties it when it starts."""
        return self.root / "device-plugins"

    @property
    def registration(self) -> Path:
        """The socket on which device plugins register."""
        return self.device_plugins / "kubelet.sock"

    @property
    def pod_resources(self) -> Path:
        """The socket of the pod resources API."""
        return self.root / "pod-resources" / "kubelet.sock"

    def device_plugin(self, resource: str) -> Path:
        """The socket of the device plugin of a resource."""
        return _checked(self.device_plugins / f"kilonova-{resource.replace('/', '_')}.sock")

    def dra_socket(self, driver: str) -> Path:
        """The socket of a DRA driver."""
        return _checked(self.root / "plugins" / driver / "dra.sock")

    def dra_endpoint(self, driver: str) -> str:
        """The socket of a DRA driver, as the kubelet sees it."""
        return f"{self.seen}/plugins/{driver}/dra.sock"

    def plugin_registration(self, driver: str) -> Path:
        """The socket by which the kubelet finds a DRA driver."""
        return _checked(self.root / "plugins_registry" / f"{driver}-reg.sock")


def _checked(path: Path) -> Path:
    if len(bytes(path)) > MAX_SOCKET_PATH:
        raise SocketPathTooLong(path)
    return path

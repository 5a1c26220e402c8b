"""Addresses of a node, and its connection to this machine."""

import random
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeNetwork:
    """Addresses of one node, in a network of 256 that nothing else here is likely to use."""

    prefix: str

    @classmethod
    def choose(cls) -> "NodeNetwork":
        """A network at random: nodes of other test runs have theirs."""
        return cls(f"10.{random.randrange(200, 250)}.{random.randrange(256)}")

    @property
    def gateway(self) -> str:
        """This machine, as the node sees it."""
        return f"{self.prefix}.1"

    @property
    def node(self) -> str:
        return f"{self.prefix}.2"

    @property
    def services(self) -> str:
        return f"{self.prefix}.64/26"

    @property
    def api_server(self) -> str:
        """The first address of the Services, that of `kubernetes`: the API server listens on it."""
        return f"{self.prefix}.65"

    @property
    def pods(self) -> str:
        return f"{self.prefix}.128/25"


def connect(network: NodeNetwork, interface: str, pid: int) -> None:
    """Connect the network namespace of a process with this machine."""
    peer = ("peer", "name", "eth0", "netns", str(pid))
    _run_ip("link", "add", interface, "type", "veth", *peer)
    _run_ip("address", "add", f"{network.gateway}/30", "dev", interface)
    _run_ip("address", "add", f"{network.api_server}/32", "dev", interface)
    _run_ip("link", "set", interface, "up")
    _run_ip("route", "add", network.pods, "via", network.node, "dev", interface)


def disconnect(interface: str) -> None:
    """Remove the interface with its addresses and routes.

    They end with the namespace, too, but some time after its last process.
    """
    subprocess.run(["ip", "link", "delete", interface], capture_output=True, check=False)


def configure_inside(network: NodeNetwork) -> None:
    """Set up the other end, in the namespace; forwarding is on in it alone."""
    _run_ip("link", "set", "lo", "up")
    _run_ip("address", "add", f"{network.node}/30", "dev", "eth0")
    _run_ip("link", "set", "eth0", "up")
    _run_ip("route", "add", "default", "via", network.gateway)
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")


def _run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)

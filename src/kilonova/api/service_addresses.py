"""Where Services are reached from the machine of `kilonova up`, whose pods are its processes.

A Service has a mirror of its ClusterIP on the machine's loopback: 127.96.a.b for 10.96.a.b. The
process node listens there and forwards, unless the annotation `kilonova.dev/host-listener: pod`
indicates that pods of the Service listen there themselves, such as a gateway whose requests must
take no further hop.
"""

from ipaddress import AddressValueError, IPv4Address, IPv4Network

HOST_LISTENER = "kilonova.dev/host-listener"
"""Annotation of a Service."""
POD_LISTENER = "pod"
"""Its value: pods listen at the mirror."""

_CLUSTER_NETWORK = IPv4Network("10.96.0.0/16")
_LOOPBACK_NETWORK = IPv4Network("127.96.0.0/16")


def map_to_loopback(cluster_ip: str) -> str | None:
    """The mirror of a ClusterIP; None for an address that is no ClusterIP of such a cluster."""
    try:
        address = IPv4Address(cluster_ip)
    except AddressValueError:
        return None
    if address not in _CLUSTER_NETWORK:
        return None
    return str(_LOOPBACK_NETWORK[int(address) - int(_CLUSTER_NETWORK.network_address)])


__all__ = ["HOST_LISTENER", "POD_LISTENER", "map_to_loopback"]

"""Services on the process node: routing, cluster DNS and service environment variables.

A *route* leads from a ClusterIP and port to the *backends* behind it, the ready pods of this
machine. The runtime shim applies routes when a pod connects. Programs of this machine outside of
pods, whose connections are not rewritten, use *service listeners*: on 127.96.a.b for ClusterIP
10.96.a.b, and on 127.0.0.1 for node ports. The *cluster DNS* answers for names in `cluster.local`.
Entry point: `assembly`.
"""

from kilonova.local.processnode.services.assembly import build_service_components
from kilonova.local.processnode.services.environment import (
    build_dns_environment,
    build_service_environment,
)
from kilonova.local.processnode.services.objects import SERVICES, Service
from kilonova.local.processnode.services.proxy.route_table import RoutePublisher

__all__ = [
    "SERVICES",
    "RoutePublisher",
    "Service",
    "build_dns_environment",
    "build_service_components",
    "build_service_environment",
]

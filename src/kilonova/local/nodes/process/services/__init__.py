"""Services at the process node: what leads from a Service's name and address to its pods.

A *route* leads from a ClusterIP and port to the *backends* behind it, the ready pods of this
machine. The keeper uses the routes when a pod connects. People on this machine, whose
connections nobody rewrites, use *doors*: listeners at 127.96.a.b for ClusterIP 10.96.a.b, and at
127.0.0.1 for node ports. The *cluster DNS* answers for names in `cluster.local`.
"""

from kilonova.local.nodes.process.services.environment import dns_environment, service_environment
from kilonova.local.nodes.process.services.objects import SERVICES, Service
from kilonova.local.nodes.process.services.parts import service_parts
from kilonova.local.nodes.process.services.table import HandOver

__all__ = [
    "SERVICES",
    "HandOver",
    "Service",
    "dns_environment",
    "service_environment",
    "service_parts",
]

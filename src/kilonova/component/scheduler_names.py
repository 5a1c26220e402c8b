"""Which values of `schedulerName` Kilonova's scheduler serves on a cluster.

Imports neither scheduler nor console, so that commands which need none start fast.
"""

from kilonova.api.scheduling_names import EMBEDDED_SCHEDULER_NAMES, SCHEDULER_NAME
from kilonova.kube import Client, Request

EMBEDDED_VERSION_MARKER = "+kilonova"
"""Part of the server version of a cluster that `kilonova up` runs."""
_INSTALLED_SCHEDULER_NAMES = frozenset({SCHEDULER_NAME})


async def is_embedded(client: Client) -> bool:
    """Whether the cluster is one of `kilonova up`."""
    reply = await client.send(Request("GET", "/version"))
    return EMBEDDED_VERSION_MARKER.encode() in reply.body


async def served_scheduler_names(client: Client) -> frozenset[str]:
    """The scheduler names that Kilonova's scheduler serves on this cluster."""
    return EMBEDDED_SCHEDULER_NAMES if await is_embedded(client) else _INSTALLED_SCHEDULER_NAMES

"""Whose pods Kilonova's scheduler places on a cluster that nobody configured otherwise. Knows no
scheduler and no console, so that commands which need none begin at once."""

from kilonova.api.schedulingnames import SCHEDULER
from kilonova.kube import Client, Request

EMBEDDED = "+kilonova"
"""In the version of a server that `kilonova up` runs."""
SERVED = frozenset({SCHEDULER})
SERVED_IN_UP = frozenset({SCHEDULER, "default-scheduler"})
"""Pods that name no scheduler are placed, too."""


async def is_embedded(client: Client) -> bool:
    """Whether `kilonova up` runs a cluster."""
    reply = await client.send(Request("GET", "/version"))
    return EMBEDDED.encode() in reply.body


async def served_on(client: Client) -> frozenset[str]:
    """The names of schedulers whose pods are placed there."""
    return SERVED_IN_UP if await is_embedded(client) else SERVED

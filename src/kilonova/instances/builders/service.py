"""The Services of the conductor. Pure."""

from collections.abc import Iterator

from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.instances.builders.identity import Identity

_HTTP = ("http", names.HTTP_PORT)
_JOIN = ("join", names.JOIN_PORT)


def build_services(identity: Identity, allocation: int, serving: int) -> Iterator[JsonObject]:
    """The Service of the allocation that serves requests, and the one that the agents of an
    allocation join, if it is another.

    They have a conductor before it is ready, since agents join it, and it is ready when they have.
    """
    name = names.service(identity.name)
    yield _build_service(identity, name, serving, _HTTP, _JOIN)
    join = names.join_service(identity.name, allocation)
    if join != name:
        yield _build_service(identity, join, allocation, _JOIN)


def _build_service(
    identity: Identity, name: str, allocation: int, *ports: tuple[str, int]
) -> JsonObject:
    return {
        "metadata": identity.build_metadata(name),
        "spec": {
            "publishNotReadyAddresses": True,
            "selector": {
                names.MODEL_INSTANCE: identity.name,
                names.ROLE: "conductor",
                names.ALLOCATION: str(allocation),
            },
            "ports": [
                {"name": each, "port": port, "protocol": "TCP", "targetPort": port}
                for each, port in ports
            ],
        },
    }

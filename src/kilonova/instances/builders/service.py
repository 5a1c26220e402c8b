"""The Service of the conductor. Pure."""

from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.instances.builders.identity import Identity


def build_service(identity: Identity, allocation: int = 0) -> JsonObject:
    """The Service of the conductor of an allocation.

    It has the conductor before that is ready, since agents join through it, and it is ready when
    they have.
    """
    return {
        "metadata": identity.build_metadata(names.service(identity.name)),
        "spec": {
            "publishNotReadyAddresses": True,
            "selector": {
                names.MODEL_INSTANCE: identity.name,
                names.ROLE: "conductor",
                names.ALLOCATION: str(allocation),
            },
            "ports": [
                _build_port("http", names.HTTP_PORT),
                _build_port("join", names.JOIN_PORT),
            ],
        },
    }


def _build_port(name: str, port: int) -> JsonObject:
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": port}

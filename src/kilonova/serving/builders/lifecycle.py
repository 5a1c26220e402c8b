"""How pods are stopped: they leave the gateway, finish their requests, and end. Pure.

A pod that is deleted is draining in every gateway at once, and still works on its requests. So its
containers get SIGTERM some time after that (`preStop`), and have the rest of the time to finish.
"""

import math

from kilonova.api.durations import parse_duration
from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceServiceSpec, ServerGroup

_ENDPOINT_UPDATE_SECONDS = 3
"""After this time no gateway sends requests to a pod that is being deleted."""
_STOP_SECONDS = 5
"""What a server needs to stop after its last request."""
_GATEWAY_DRAIN_ON_THIS_MACHINE = 3


def parse_seconds(duration: str) -> int:
    """The seconds of a duration, rounded up."""
    return math.ceil(parse_duration(duration))


def get_server_delay(group: ServerGroup) -> int:
    """The seconds from the deletion of a server until its SIGTERM.

    ModelServer goes on for some seconds after SIGTERM by itself, and then finishes its requests, as
    Triton does at once. Of other servers that is not known: they get SIGTERM when the time for it
    is over.
    """
    drain = parse_seconds(group.drain)
    match group.runtime:
        case "ModelServer":
            return 0
        case "Triton":
            return min(_ENDPOINT_UPDATE_SECONDS, drain)
        case "Custom":
            return drain


def get_server_grace(group: ServerGroup) -> int:
    """The seconds from the deletion of a server until it is killed."""
    return parse_seconds(group.drain) + _STOP_SECONDS


def get_gateway_delay(spec: InferenceServiceSpec, *, on_this_machine: bool) -> int:
    """The seconds from the deletion of a gateway until its SIGTERM, which ends all connections: it
    may wait for the requests of any group."""
    drain = max(parse_seconds(each.drain) for each in spec.servers)
    # A cluster on this machine is stopped by Ctrl-C, with all of its clients.
    return min(drain, _GATEWAY_DRAIN_ON_THIS_MACHINE) if on_this_machine else drain


def get_gateway_grace(spec: InferenceServiceSpec, *, on_this_machine: bool) -> int:
    """The seconds from the deletion of a gateway until it is killed."""
    return get_gateway_delay(spec, on_this_machine=on_this_machine) + _STOP_SECONDS


def build_pre_stop(seconds: int) -> JsonObject:
    """The `lifecycle` of a container that gets SIGTERM after some seconds; empty for at once."""
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}} if seconds else {}

"""How a server is chosen: the policy of a cluster, and the keys that are hashed for it."""

from typing import assert_never

from kilonova.api.durations import parse_duration
from kilonova.api.serving import HashKey, LoadBalancing
from kilonova.serving.gateway.config.envoy_types import convert_duration
from kilonova.serving.gateway.config.request_headers import MODEL_HEADER, PROMPT_HEADER
from kilonova.serving.gateway.model import EnvoyResource

_MIN_RING_SIZE = 1024


def is_hashed(balancing: LoadBalancing) -> bool:
    """Whether the policy chooses by a key."""
    return balancing.policy in ("RingHash", "Maglev")


def build_policy(balancing: LoadBalancing, slow_start: str) -> EnvoyResource:
    """The fields of a cluster that specify how a server is chosen."""
    ramp: EnvoyResource = {}
    if parse_duration(slow_start) > 0:
        ramp = {"slow_start_config": {"slow_start_window": convert_duration(slow_start)}}
    match balancing.policy:
        case "LeastRequest":
            return {"lb_policy": "LEAST_REQUEST", "least_request_lb_config": ramp}
        case "RoundRobin":
            return {"lb_policy": "ROUND_ROBIN", "round_robin_lb_config": ramp}
        case "Random":
            return {"lb_policy": "RANDOM"}
        case "RingHash":
            return {
                "lb_policy": "RING_HASH",
                "ring_hash_lb_config": {"minimum_ring_size": _MIN_RING_SIZE},
            }
        case "Maglev":
            return {"lb_policy": "MAGLEV"}
    assert_never(balancing.policy)


def build_common_options(balancing: LoadBalancing) -> EnvoyResource:
    """The `common_lb_config` of a cluster."""
    options: EnvoyResource = {
        # Only if no server is healthy all are tried: one of them may be, and none is worse.
        "healthy_panic_threshold": {"value": 1},
        # A server that drains gets no further request from now on, not within a second.
        "update_merge_window": "0s",
    }
    if is_hashed(balancing):
        options["consistent_hashing_lb_config"] = {
            "hash_balance_factor": balancing.hash_balance_factor
        }
    return options


def build_hash_policies(balancing: LoadBalancing) -> list[EnvoyResource]:
    """The `hash_policy` of a route: the first source that a request has."""
    if not is_hashed(balancing):
        return []
    return [_build_hash_policy(key) | {"terminal": True} for key in balancing.hash]


def _build_hash_policy(key: HashKey) -> EnvoyResource:
    match key.source:
        case "ClientAddress":
            return {"connection_properties": {"source_ip": True}}
        case "Header":
            return {"header": {"header_name": key.name}}
        case "Cookie":
            cookie: EnvoyResource = {"name": key.name}
            if key.ttl is not None:
                cookie |= {"ttl": convert_duration(key.ttl), "path": "/"}
            return {"cookie": cookie}
        case "Model":
            return {"header": {"header_name": MODEL_HEADER}}
        case "PromptPrefix":
            return {"header": {"header_name": PROMPT_HEADER}}
    assert_never(key.source)

"""What admission accepts, Envoy accepts: the greatest, the smallest and the oddest values."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.serving import InferenceService, InferenceServiceSpec
from kilonova.serving.admission.validation import validate_service
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.clients import open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import build_state
from tests.serving.gateway.support.upstreams import run_upstream

MOST = 2**31 - 1
GROUP = {"name": "main", "runtime": "ModelServer"}
BACKENDS = [{"server": "main", "weight": 1_000_000}]
PROVIDER = {"name": "a", "issuer": 'é"', "audiences": ["é", ""], "clientClaim": "é b.c"}


def build(group: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"servers": [{**GROUP, **(group or {})}], **spec}


SPECS: dict[str, tuple[dict[str, Any], int]] = {
    "the longest queue": (build({"maxInFlight": MOST, "maxQueued": MOST}), 200),
    "the greatest limits": (
        build(
            limits={
                "connections": MOST,
                "connectionRate": {"burst": MOST, "perFill": MOST, "fillInterval": "24h"},
                "requests": {"perMinute": MOST, "burst": MOST},
                "maxBodyBytes": 1 << 40,
            }
        ),
        200,
    ),
    "the least limits": (
        build(
            limits={
                "connections": 1,
                "connectionRate": {"burst": 1, "perFill": MOST, "fillInterval": "50ms"},
                "requests": {"perMinute": 1},
                "maxBodyBytes": 1,
            }
        ),
        200,
    ),
    "the longest durations": (
        build(
            gateway={
                "timeout": "168h",
                "idleTimeout": "0s",
                "slowStart": "1h",
                "outlierDetection": {"interval": "1h", "baseEjectionTime": "24h"},
                "healthCheck": {"interval": "1h", "timeout": "1h", "unhealthyThreshold": MOST},
                "retries": {"attempts": MOST},
            }
        ),
        200,
    ),
    "the shortest durations": (
        build(
            gateway={
                "slowStart": "1ns",
                "outlierDetection": {"interval": "1ms", "baseEjectionTime": "1ms"},
                "healthCheck": {"interval": "1ms", "timeout": "1s"},
            }
        ),
        200,
    ),
    "all keys of hashes": (
        build(
            gateway={
                "loadBalancing": {
                    "policy": "RingHash",
                    "hashBalanceFactor": 1000,
                    "hash": [
                        {"source": "Cookie", "name": "c", "ttl": "0s"},
                        {"source": "Header", "name": "Host"},
                        {"source": "Model"},
                        {"source": "PromptPrefix", "prefixLength": MOST},
                        {"source": "ClientAddress"},
                    ],
                }
            }
        ),
        200,
    ),
    "odd names": (
        build(
            auth={"apiKeys": {"secret": "k", "header": "Cookie"}},
            limits={"clients": [{"client": 'é"\\]]--', "requests": {"perMinute": 1}}]},
            routes=[
                {
                    "models": [" a", "~#&-[](){}^$*+?.|\\", "\u0080\u2028"],
                    "headers": [{"name": "Host", "value": " é"}],
                    "backends": BACKENDS,
                }
            ],
        ),
        401,
    ),
    "an issuer of tokens at an address": (
        build(auth={"jwt": [{**PROVIDER, "jwksUri": "https://[::1]:1/k?a=b"}]}),
        401,
    ),
}


@pytest.mark.parametrize(("spec", "status"), SPECS.values(), ids=SPECS)
async def test_configuration_that_was_admitted_is_taken(spec: dict[str, Any], status: int):
    async with run_upstream("main-0") as first, run_upstream("main-1") as second:
        admitted = admit(spec)
        async with (
            run_gateway(admitted, build_state([first.endpoint, second.endpoint])) as gateway,
            open_session(admitted.gateway.http_port) as session,
            session.get("/v2/models/m") as reply,
        ):
            assert reply.status == status, gateway.read_log()
            assert "rejected" not in gateway.read_log()


def admit(spec: dict[str, Any]) -> InferenceServiceSpec:
    """The spec after admission, at free ports of this machine."""
    obj = {"metadata": {"name": "web", "uid": "", "resourceVersion": ""}, "spec": spec}
    head = {"apiVersion": "serving.kilonova.dev/v1alpha1", "kind": "InferenceService"}
    assert validate_service({**head, **obj}).errors == ()
    found = msgspec.convert({**head, **obj}, InferenceService).spec
    ports = {"http_port": find_free_port(), "grpc_port": find_free_port()}
    return replace(found, gateway=replace(found.gateway, **ports))

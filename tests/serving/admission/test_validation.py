"""Validation of services beyond their schema, as tables."""

import copy
from typing import Any

import pytest

from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.serving.admission.validation import validate_service

GROUP: dict[str, Any] = {"name": "model", "image": "vllm:1", "protocol": "OpenAI"}
V2: dict[str, Any] = {"name": "model", "runtime": "Triton"}


def service(*groups: Any, name: str = "web", **spec: Any) -> dict[str, Any]:
    listed = [*groups] or [GROUP]
    return {"metadata": {"name": name}, "spec": {"servers": listed, **spec}}


def errors_of(result: ValidationResult) -> list[str]:
    return [f"{each.field}: {each.message}" for each in result.errors]


def autoscaled(**fields: Any) -> dict[str, Any]:
    return {**GROUP, "autoscaling": {"maxReplicas": 3, **fields}}


def clique(name: str, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "i"}]}
    return {"name": name, "spec": {"replicas": 1, "podSpec": pod, **spec}}


def templated(**fields: Any) -> dict[str, Any]:
    template = {"cliques": [clique("head"), clique("worker")]}
    return {
        "name": "model",
        "protocol": "OpenAI",
        "podCliqueSetTemplate": template,
        "entryClique": "head",
        **fields,
    }


VALID = {
    "the least": service(),
    "Triton": service(V2),
    "an image in the template": service(
        {"name": "m", "template": {"spec": {"containers": [{"name": "s", "image": "x"}]}}}
    ),
    "metrics beside the API": service({**GROUP, "ports": {"metrics": 8000, "grpc": 0}}),
    "one port for both protocols": service(V2, gateway={"httpPort": 8001, "grpcPort": 8001}),
    "gRPC alone": service({**V2, "ports": {"http": 0}}, gateway={"httpPort": 0}),
    "several pods": service(templated()),
    "scale to zero with KEDA": service(autoscaled(minReplicas=0, scaler="ScaledObject")),
    "limits of clients by certificate": service(
        gateway={"tls": {"secret": "a", "clientCaSecret": "b"}},
        limits={"clients": [{"client": "a"}]},
    ),
    "a schedule": service(
        autoscaled(
            schedule=[
                {
                    "start": "0 8 * * 1-5",
                    "duration": "10h",
                    "minReplicas": 2,
                    "timeZone": "Europe/Berlin",
                }
            ]
        )
    ),
    "a wildcard host": service(gateway={"ingress": {"host": "*.example.com"}}),
    "no drain": service({**GROUP, "drain": "0s"}),
    "resources of all kinds": service(
        {
            **GROUP,
            "resources": {
                "limits": {"nvidia.com/gpu": 1, "cpu": "1.5", "memory": "1Gi"},
                "requests": {"nvidia.com/gpu": "1", "cpu": "1500m", "ephemeral-storage": "1.5Gi"},
            },
        }
    ),
    "a route by host": service(
        routes=[{"headers": [{"name": ":authority"}], "backends": [{"server": "model"}]}]
    ),
    "a collector without a port": service(gateway={"tracing": {"endpoint": "collector"}}),
    "a collector at an address of IPv6": service(gateway={"tracing": {"endpoint": "[::1]:4317"}}),
    "a collector by URL": service(
        gateway={"tracing": {"endpoint": "c:1", "httpEndpoint": "http://c:4318/"}}
    ),
}


@pytest.mark.parametrize("obj", VALID.values(), ids=VALID)
def test_valid_services_are_accepted(obj: Any) -> None:
    assert validate_service(obj) == ValidationResult()


INVALID: dict[str, tuple[Any, str]] = {
    "a name that no Service can have": (
        service(name="1web"),
        'metadata.name: Invalid value: "1web": must start with a letter, because its Service has '
        "the same name",
    ),
    "long names": (
        service({**GROUP, "name": "m" * 30}, name="w" * 20),
        'spec.servers[0].name: Invalid value: "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmm": is too long: '
        "'wwwwwwwwwwwwwwwwwwww-mmmmmmmmmmmmmmmmmmmmmmmmmmmmmm' has 51 characters, and the names of "
        "its pods leave 39; shorten it, or the name of the service",
    ),
    "the name of the gateway": (
        service({**GROUP, "name": "gateway"}),
        'spec.servers[0].name: Invalid value: "gateway": is taken by the gateway of the service: '
        "choose another name",
    ),
    "no image": (
        service({"name": "m"}),
        "spec.servers[0].image: Required value: set the image of the server, or a runtime that has "
        "one: ModelServer, Triton",
    ),
    "no port": (
        service({**V2, "ports": {"http": 0, "grpc": 0}}),
        "spec.servers[0].ports.http: Required value: set the port of HTTP, or that of gRPC",
    ),
    "the OpenAI API without HTTP": (
        service({**GROUP, "ports": {"http": 0}}),
        "spec.servers[0].ports.http: Required value: the protocol OpenAI is spoken over HTTP",
    ),
    "two protocols on a port of a server": (
        service({**V2, "ports": {"grpc": 8000}}),
        "spec.servers[0].ports.grpc: Invalid value: 8000: is another port of the server: choose "
        "another, or 0 if it does not speak gRPC",
    ),
    "a gateway without a port": (
        service(V2, gateway={"httpPort": 0, "grpcPort": 0}),
        "spec.gateway.httpPort: Required value: set it, or grpcPort: clients need one of them",
    ),
    "the port of statistics": (
        service(gateway={"grpcPort": 8002}),
        "spec.gateway.grpcPort: Invalid value: 8002: gateways serve their metrics and readiness "
        "there: choose another port",
    ),
    "HTTP servers behind gRPC": (
        service(gateway={"httpPort": 0}),
        "spec.gateway.httpPort: Required value: spec.servers[0] speaks OpenAI, which is HTTP: set "
        "the port",
    ),
    "no host": (
        service(gateway={"ingress": {"host": "a_b"}}),
        'spec.gateway.ingress.host: Invalid value: "a_b": ',
    ),
    "auth that lets everybody in": (
        service(auth={}),
        "spec.auth.apiKeys: Required value: set it or jwt, or leave auth out",
    ),
    "clients without names": (
        service(limits={"clients": [{"client": "a"}]}),
        "spec.limits.clients: Forbidden: without auth clients have no names: set auth, or "
        "limits.requests for each address",
    ),
    "a load limit without a measure": (
        service(limits={"load": {"retryAfter": "1s"}}),
        "spec.limits.load.inFlightPerReplica: Required value: set it, queueTime or query: what is "
        "high?",
    ),
    "auth that a static configuration would leave out": (
        service(auth={"apiKeys": {"secret": "s"}}, gateway={"staticConfig": {"name": "c"}}),
        "spec.auth: Forbidden: gateway.staticConfig replaces the whole configuration: do it there, "
        "and leave it out",
    ),
    "routes that it would leave out": (
        service(
            routes=[{"backends": [{"server": "model"}]}], gateway={"staticConfig": {"name": "c"}}
        ),
        "spec.routes: Forbidden: gateway.staticConfig replaces",
    ),
    "an unknown entry": (
        service(templated(entryClique="front")),
        'spec.servers[0].entryClique: Not found: "front": is no clique of podCliqueSetTemplate: '
        "use one of head, worker",
    ),
    "a runtime for pods that exist": (
        service(templated(runtime="Triton", protocol="V2")),
        'spec.servers[0].runtime: Invalid value: "Triton": Triton makes the pods, which '
        "podCliqueSetTemplate has: use Custom",
    ),
    "an image for pods that exist": (
        service(templated(image="x")),
        "spec.servers[0].image: Forbidden: podCliqueSetTemplate has the pods: write it there",
    ),
    "two autoscalers": (
        service(
            templated(
                podCliqueSetTemplate={
                    "cliques": [clique("head", autoScalingConfig={"maxReplicas": 3})]
                },
                autoscaling={"maxReplicas": 2},
            )
        ),
        "spec.servers[0].podCliqueSetTemplate.cliques[0].spec.autoScalingConfig: Forbidden: the "
        "service scales whole servers already: leave one of both out",
    ),
    "an HPA that scales to zero": (
        service(autoscaled(minReplicas=0, scaler="HorizontalPodAutoscaler")),
        "spec.servers[0].autoscaling.minReplicas: Invalid value: 0: a HorizontalPodAutoscaler does "
        "not scale to 0: use ScaledObject or Builtin, or 1",
    ),
    "no cron schedule": (
        service(
            autoscaled(schedule=[{"start": "at 8 o'clock", "duration": "1h", "minReplicas": 1}])
        ),
        'spec.servers[0].autoscaling.schedule[0].start: Invalid value: "at 8 o\'clock": expected '
        "exactly 5 fields, found 3: [at 8 o'clock]: write a time as for cron, such as 0 8 * * 1-5",
    ),
    "no time zone": (
        service(
            autoscaled(
                schedule=[
                    {
                        "start": "0 8 * * *",
                        "duration": "1h",
                        "minReplicas": 1,
                        "timeZone": "Moon/Base",
                    }
                ]
            )
        ),
        'spec.servers[0].autoscaling.schedule[0].timeZone: Invalid value: "Moon/Base": unknown '
        "time zone Moon/Base",
    ),
    "a schedule without bounds": (
        service(autoscaled(schedule=[{"start": "0 8 * * *", "duration": "1h"}])),
        "spec.servers[0].autoscaling.schedule[0].minReplicas: Required value: set it, or "
        "maxReplicas",
    ),
    "bounds the wrong way round": (
        service(
            autoscaled(
                schedule=[
                    {
                        "start": "0 8 * * *",
                        "duration": "1h",
                        "minReplicas": 3,
                        "maxReplicas": 1,
                    }
                ]
            )
        ),
        "spec.servers[0].autoscaling.schedule[0].minReplicas: Invalid value: 3: must not exceed "
        "maxReplicas, 1",
    ),
    "more copies than allowed": (
        service(
            {**V2, "modelPlacement": {"models": [{"name": "a", "minCopies": 2, "maxCopies": 1}]}}
        ),
        "spec.servers[0].modelPlacement.models[0].minCopies: Invalid value: 2: must not exceed "
        "maxCopies, 1",
    ),
    "a store that is none": (
        service({**V2, "modelRepository": {"objectStore": {"url": "oci://registry"}}}),
        'spec.servers[0].modelRepository.objectStore.url: Invalid value: "oci://registry": ',
    ),
    "a drain of a week": (
        service({**GROUP, "drain": "168h"}),
        'spec.servers[0].drain: Invalid value: "168h": must be no more than 24h',
    ),
    "a health check without a pause": (
        service(gateway={"healthCheck": {"interval": "0s"}}),
        'spec.gateway.healthCheck.interval: Invalid value: "0s": must be at least 1ms',
    ),
    "requests that are not held": (
        service(autoscaled(scaleToZero={"holdTimeout": "10ms"})),
        'spec.servers[0].autoscaling.scaleToZero.holdTimeout: Invalid value: "10ms": must be at '
        "least 1s",
    ),
    "more gateways than anybody needs": (
        service(gateway={"replicas": 2_000_000_000}),
        "spec.gateway.replicas: Invalid value: 2000000000: must be no more than 1000",
    ),
    "a header that is none": (
        service(routes=[{"headers": [{"name": "a b"}], "backends": [{"server": "model"}]}]),
        'spec.routes[0].headers[0].name: Invalid value: "a b": must be the name of a header',
    ),
    "a value that Envoy does not take": (
        service(
            routes=[{"headers": [{"name": "a", "value": "\0"}], "backends": [{"server": "model"}]}]
        ),
        'spec.routes[0].headers[0].value: Invalid value: "\\u0000": must not have control',
    ),
    "a model that Envoy does not take": (
        service(routes=[{"models": ["a\0"], "backends": [{"server": "model"}]}]),
        'spec.routes[0].models[0]: Invalid value: "a\\u0000": must not have control characters',
    ),
    "a cookie with an attribute": (
        service(gateway={"loadBalancing": {"hash": [{"source": "Cookie", "name": "a;b"}]}}),
        'spec.gateway.loadBalancing.hash[0].name: Invalid value: "a;b": must be the name',
    ),
    "a relative path": (
        service(gateway={"healthCheck": {"path": "health"}}),
        "spec.gateway.healthCheck.path: Invalid value: \"health\": must start with '/'",
    ),
    "a path with a header behind": (
        service(gateway={"healthCheck": {"path": "/a b\r\nX: y"}}),
        'spec.gateway.healthCheck.path: Invalid value: "/a b\\r\\nX: y": must start with',
    ),
    "a Secret above the namespace": (
        service(auth={"apiKeys": {"secret": "../x"}}),
        'spec.auth.apiKeys.secret: Invalid value: "../x": must consist of',
    ),
    "no name of a Secret": (
        service(gateway={"tls": {"secret": "A B"}}),
        'spec.gateway.tls.secret: Invalid value: "A B": must consist of',
    ),
    "no name of a ConfigMap": (
        service(gateway={"staticConfig": {"name": "../x"}}),
        'spec.gateway.staticConfig.name: Invalid value: "../x": must consist of',
    ),
    "keys in the path": (
        service(auth={"apiKeys": {"secret": "s", "header": ":path"}}),
        'spec.auth.apiKeys.header: Invalid value: ":path": must be the name of a header',
    ),
    "keys in a header of the gateway": (
        service(auth={"apiKeys": {"secret": "s", "header": "X-Kilonova-Client"}}),
        'spec.auth.apiKeys.header: Invalid value: "X-Kilonova-Client": has a meaning of its own',
    ),
    "keys in no header": (
        service(auth={"apiKeys": {"secret": "s", "header": ""}}),
        "spec.auth.apiKeys.header: Required value: name it, or leave it out for x-api-key",
    ),
    "keys of an issuer without a host": (
        service(auth={"jwt": [{"name": "a", "issuer": "i", "jwksUri": "http://"}]}),
        'spec.auth.jwt[0].jwksUri: Invalid value: "http://": must be a URL with a host',
    ),
    "keys of an issuer at an impossible port": (
        service(auth={"jwt": [{"name": "a", "issuer": "i", "jwksUri": "https://x:99999/k"}]}),
        'spec.auth.jwt[0].jwksUri: Invalid value: "https://x:99999/k": must be a URL with a host',
    ),
    "keys of an issuer with a space": (
        service(auth={"jwt": [{"name": "a", "issuer": "i", "jwksUri": "https://exa mple/k"}]}),
        'spec.auth.jwt[0].jwksUri: Invalid value: "https://exa mple/k": must be a URL',
    ),
    "no claim": (
        service(
            auth={"jwt": [{"name": "a", "issuer": "i", "jwksUri": "http://x/k", "clientClaim": ""}]}
        ),
        "spec.auth.jwt[0].clientClaim: Required value: name it, or leave it out for sub",
    ),
    "a collector at an impossible port": (
        service(gateway={"tracing": {"endpoint": "x:99999"}}),
        'spec.gateway.tracing.endpoint: Invalid value: "x:99999": must be HOST:PORT',
    ),
    "requests of a size that no number has": (
        service(limits={"maxBodyBytes": 2**63 - 1}),
        "spec.limits.maxBodyBytes: Invalid value: 9223372036854775807: must be no more than 1 TiB",
    ),
    "what Triton does not speak": (
        service({**V2, "protocol": "OpenAI"}),
        'spec.servers[0].protocol: Invalid value: "OpenAI": is not what tritonserver speaks',
    ),
    "models instead of the image": (
        service({**V2, "modelRepository": {"mountPath": "/", "directory": {"path": "/m"}}}),
        'spec.servers[0].modelRepository.mountPath: Invalid value: "/": would hide the files',
    ),
    "a folder above the volume": (
        service(
            {
                **V2,
                "modelRepository": {
                    "persistentVolumeClaim": {"claimName": "c", "subPath": "../../etc"}
                },
            }
        ),
        "spec.servers[0].modelRepository.persistentVolumeClaim.subPath: Invalid value: "
        '"../../etc": must be relative to the volume',
    ),
    "half of a GPU": (
        service({**GROUP, "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}),
        'spec.servers[0].resources.limits.nvidia.com/gpu: Invalid value: "0.5": must be an integer',
    ),
    "a request above the limit": (
        service({**GROUP, "resources": {"limits": {"cpu": 1}, "requests": {"cpu": "1500m"}}}),
        'spec.servers[0].resources.requests.cpu: Invalid value: "1500m": must be no more than the '
        "limit of 1",
    ),
    "less than nothing": (
        service(gateway={"resources": {"limits": {"memory": "-1Gi"}}}),
        'spec.gateway.resources.limits.memory: Invalid value: "-1Gi": must be greater',
    ),
    "a bound that is excluded": (
        service(autoscaled(demand={"utilization": 0})),
        "spec.servers[0].autoscaling.demand.utilization: Invalid value: 0: Expected `float` > 0.0",
    ),
}


@pytest.mark.parametrize(("obj", "error"), INVALID.values(), ids=INVALID)
def test_errors_name_field_value_and_fix(obj: Any, error: str) -> None:
    [found] = errors_of(validate_service(obj))
    assert found.startswith(error)


WARNED: dict[str, tuple[Any, str]] = {
    "a route that catches all": (
        service(
            routes=[
                {"backends": [{"server": "model"}]},
                {"models": ["a"], "backends": [{"server": "model"}]},
            ]
        ),
        "spec.routes[0] matches all requests: the routes after it are never used; move it to the "
        "end, or give it models or headers",
    ),
    "times of tokens without tokens": (
        service({**V2, "autoscaling": {"maxReplicas": 2, "sla": {"timeToFirstToken": "1s"}}}),
        "spec.servers[0].autoscaling.sla.timeToFirstToken has no effect: only servers of the "
        "protocol OpenAI report it",
    ),
    "limits of tokens without tokens": (
        service(V2, limits={"tokens": {"perMinute": 5}}),
        "spec.limits.tokens has no effect: no group has the protocol OpenAI",
    ),
}


@pytest.mark.parametrize(("obj", "warning"), WARNED.values(), ids=WARNED)
def test_what_has_no_effect_is_said(obj: Any, warning: str) -> None:
    assert validate_service(obj) == ValidationResult((), (warning,))


def test_service_that_was_admitted_may_be_changed_elsewhere_and_deleted() -> None:
    old = service({"name": "m"})
    labelled = copy.deepcopy(old)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert validate_service(labelled, old) == ValidationResult()
    deleted = service({"name": "other"})
    deleted["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    assert validate_service(deleted, old) == ValidationResult()
    assert validate_service(service({"name": "other"}), old).errors


def test_what_violates_the_schema_is_reported_once() -> None:
    [error] = validate_service(service({"name": "m", "ports": {"http": "many"}})).errors
    assert error.field == "spec.servers[0].ports.http"
    assert error.message == 'Invalid value: "many": Expected `int`, got `str`'

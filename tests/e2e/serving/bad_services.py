"""Services that cannot be: each with the field that is to be named, and part of the reason."""

from typing import Any

MODEL: dict[str, Any] = {"name": "m", "runtime": "ModelServer"}
_BACKEND = [{"server": "m"}]
_KEYS = {"apiKeys": {"secret": "k"}}


def _spec(group: Any = None, **spec: Any) -> dict[str, Any]:
    return {"servers": [{**MODEL, **(group or {})}], **spec}


def _gateway(**fields: Any) -> dict[str, Any]:
    return _spec(gateway=fields)


def _auto(**fields: Any) -> dict[str, Any]:
    return _spec({"autoscaling": {"maxReplicas": 3, **fields}})


def _route(**fields: Any) -> dict[str, Any]:
    return _spec(routes=[{"backends": _BACKEND, **fields}])


def _jwt(**fields: Any) -> dict[str, Any]:
    return _spec(auth={"jwt": [{"name": "a", "issuer": "i", **fields}]})


def _repository(**fields: Any) -> dict[str, Any]:
    return _spec({"modelRepository": fields})


def _models(*models: Any, **fields: Any) -> dict[str, Any]:
    return _spec({"modelPlacement": {"models": list(models), **fields}})


BAD_SPECS: tuple[tuple[Any, str, str], ...] = (
    (None, "spec", "Required value"),
    ({}, "spec.servers", "Required value"),
    ({"servers": []}, "spec.servers", "at least 1 items"),
    ({"servers": [MODEL, MODEL]}, "spec.servers[1]", "Duplicate value"),
    ({"servers": [{"name": "m"}]}, "spec.servers[0].image", "Required value"),
    (_spec({"name": "Main"}), "spec.servers[0].name", '"Main"'),
    (_spec({"name": "gateway"}), "spec.servers[0].name", "taken by the gateway"),
    (_spec({"name": "m" * 40}), "spec.servers[0].name", "is too long"),
    (_spec({"runtime": "Magic"}), "spec.servers[0].runtime", "supported values"),
    (_spec({"protocol": "SOAP"}), "spec.servers[0].protocol", "supported values"),
    (
        _spec({"runtime": "Triton", "protocol": "OpenAI"}),
        "spec.servers[0].protocol",
        "use V2",
    ),
    (_spec({"replicas": -1}), "spec.servers[0].replicas", "greater than or equal to 0"),
    (_spec({"replicas": "many"}), "spec.servers[0].replicas", "integer"),
    (_spec({"replicas": 1_000_000}), "spec.servers[0].replicas", "no more than 100000"),
    (_auto(maxReplicas=1_000_000), "spec.servers[0].autoscaling.maxReplicas", "more than 100000"),
    (_spec({"drain": "-1s"}), "spec.servers[0].drain", '"-1s"'),
    (_spec({"drain": "169h"}), "spec.servers[0].drain", "no more than 24h"),
    (_spec({"maxInFlight": 0}), "spec.servers[0].maxInFlight", "greater than or equal to 1"),
    (_spec({"ports": {"grpc": 8000}}), "spec.servers[0].ports.grpc", "another port"),
    (_spec({"ports": {"http": 0, "grpc": 0}}), "spec.servers[0].ports.http", "Required value"),
    (
        _spec({"protocol": "OpenAI", "ports": {"http": 0}}),
        "spec.servers[0].ports.http",
        "spoken over HTTP",
    ),
    (
        _spec({"resources": {"limits": {"nvidia.com/gpu": "half"}}}),
        "spec.servers[0].resources.limits.nvidia.com/gpu",
        '"half"',
    ),
    (
        _spec({"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}),
        "spec.servers[0].resources.limits.nvidia.com/gpu",
        "must be an integer",
    ),
    (
        _gateway(resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}}),
        "spec.gateway.resources.requests.cpu",
        "limit of 1",
    ),
    (_spec({"env": [{"value": "1"}]}), "spec.servers[0].env[0].name", "Required value"),
    (
        _spec({"template": {"spec": {"containerz": []}}}),
        "spec.servers[0].template.spec.containerz",
        "unknown field",
    ),
    (
        _spec({"podCliqueSetTemplate": {"cliques": []}}),
        "spec.servers[0].entryClique",
        "Required value",
    ),
    (_auto(minReplicas=5), "spec.servers[0].autoscaling.minReplicas", "not be greater than"),
    (_auto(maxReplicas=0), "spec.servers[0].autoscaling.maxReplicas", "or equal to 1"),
    (_auto(demand={"utilization": 0}), "spec.servers[0].autoscaling.demand.utilization", "> 0"),
    (_auto(demand={"utilization": 1.5}), "spec.servers[0].autoscaling.demand.utilization", "1.5"),
    (_auto(sla={}), "spec.servers[0].autoscaling.sla", "set at least one"),
    (_auto(sla={"queue": "0s"}), "spec.servers[0].autoscaling.sla.queue", "at least 1ms"),
    (
        _auto(sla={"queue": "1s", "percentile": 100}),
        "spec.servers[0].autoscaling.sla.percentile",
        "100",
    ),
    (
        _auto(metric={"query": "up", "threshold": -1}),
        "spec.servers[0].autoscaling.metric.threshold",
        "-1",
    ),
    (
        _auto(metric={"query": "up", "threshold": 1, "prometheus": "ftp://x"}),
        "spec.servers[0].autoscaling.metric.prometheus",
        "must be a URL",
    ),
    (_auto(scaler="Magic"), "spec.servers[0].autoscaling.scaler", "supported values"),
    (
        _auto(scaler="HorizontalPodAutoscaler", minReplicas=0),
        "spec.servers[0].autoscaling.minReplicas",
        "does not scale to 0",
    ),
    (
        _auto(schedule=[{"start": "99 99 * * *", "duration": "1h", "minReplicas": 1}]),
        "spec.servers[0].autoscaling.schedule[0].start",
        "as for cron",
    ),
    (
        _auto(
            schedule=[
                {
                    "start": "0 8 * * *",
                    "duration": "1h",
                    "minReplicas": 1,
                    "timeZone": "../../etc/passwd",
                }
            ]
        ),
        "spec.servers[0].autoscaling.schedule[0].timeZone",
        "unknown time zone",
    ),
    (
        _auto(scaleToZero={"holdTimeout": "0s"}),
        "spec.servers[0].autoscaling.scaleToZero.holdTimeout",
        "at least 1s",
    ),
    (
        _auto(scaleToZero={"maxHeld": 0}),
        "spec.servers[0].autoscaling.scaleToZero.maxHeld",
        "or equal to 1",
    ),
    (_spec(routes=[{"backends": []}]), "spec.routes[0].backends", "at least 1 items"),
    (_spec(routes=[{"backends": [{"server": "x"}]}]), "spec.routes", "a group that servers"),
    (
        _spec(routes=[{"backends": [{"server": "m", "weight": 0}]}]),
        "spec.routes[0].backends",
        "weight above 0",
    ),
    (_route(timeout="soon"), "spec.routes[0].timeout", '"soon"'),
    (_route(models=["a\0"]), "spec.routes[0].models[0]", "control characters"),
    (_route(headers=[{"name": "a b"}]), "spec.routes[0].headers[0].name", "name of a header"),
    (_gateway(replicas=0), "spec.gateway.replicas", "or equal to 1"),
    (_gateway(replicas=2_000_000_000), "spec.gateway.replicas", "no more than 1000"),
    (_gateway(httpPort=0, grpcPort=0), "spec.gateway.httpPort", "clients need one"),
    (_gateway(httpPort=8002), "spec.gateway.httpPort", "choose another port"),
    (_gateway(httpPort=70000), "spec.gateway.httpPort", "65535"),
    (_gateway(timeout="99999999h"), "spec.gateway.timeout", "must be a duration"),
    (_gateway(tmeout="1s"), "spec.gateway.tmeout", "unknown field"),
    (_gateway(retries={"attempts": -1}), "spec.gateway.retries.attempts", "or equal to 0"),
    (_gateway(healthCheck={"path": "health"}), "spec.gateway.healthCheck.path", "start with"),
    (_gateway(healthCheck={"interval": "0s"}), "spec.gateway.healthCheck.interval", "1ms"),
    (_gateway(tls={"secret": "A B"}), "spec.gateway.tls.secret", '"A B"'),
    (_gateway(tls={"clientCaSecret": "x"}), "spec.gateway.tls.secret", "Required value"),
    (_gateway(ingress={"host": "http://x"}), "spec.gateway.ingress.host", '"http://x"'),
    (_gateway(service={"type": "Magic"}), "spec.gateway.service.type", "supported values"),
    (_gateway(tracing={"endpoint": "x:99999"}), "spec.gateway.tracing.endpoint", "HOST:PORT"),
    (_gateway(staticConfig={"name": "../x"}), "spec.gateway.staticConfig.name", '"../x"'),
    (
        _gateway(loadBalancing={"policy": "Maglev"}),
        "spec.gateway.loadBalancing.hash",
        "need a key",
    ),
    (
        _gateway(loadBalancing={"policy": "Maglev", "hash": [{"source": "Cookie"}]}),
        "spec.gateway.loadBalancing.hash[0].name",
        "name the header or cookie",
    ),
    (_spec(auth={}), "spec.auth.apiKeys", "or leave auth out"),
    (_spec(auth={"apiKeys": {"secret": "../x"}}), "spec.auth.apiKeys.secret", '"../x"'),
    (
        _spec(auth={"apiKeys": {"secret": "k", "header": ":path"}}),
        "spec.auth.apiKeys.header",
        "name of a header",
    ),
    (_jwt(), "spec.auth.jwt[0]", "exactly one of"),
    (
        _jwt(jwksUri="http://x/k", jwksSecret={"name": "s"}),
        "spec.auth.jwt[0]",
        "exactly one of",
    ),
    (_jwt(jwksUri="ftp://x"), "spec.auth.jwt[0].jwksUri", '"ftp://x"'),
    (_jwt(jwksUri="http://"), "spec.auth.jwt[0].jwksUri", "with a host"),
    (_jwt(jwksUri="https://x:99999/k"), "spec.auth.jwt[0].jwksUri", "with a host"),
    (_jwt(jwksUri="http://exämple.org/k"), "spec.auth.jwt[0].jwksUri", "not ASCII"),
    (_jwt(jwksUri="http://user:word@x/k"), "spec.auth.jwt[0].jwksUri", "with a host"),
    (_jwt(jwksUri="http://x/k", clientClaim=""), "spec.auth.jwt[0].clientClaim", "Required"),
    (_spec(limits={"requests": {"perMinute": 0}}), "spec.limits.requests.perMinute", "equal to 1"),
    (_spec(limits={"maxBodyBytes": 2**63 - 1}), "spec.limits.maxBodyBytes", "1 TiB"),
    (_spec(limits={"maxBodyBytes": 0}), "spec.limits.maxBodyBytes", "at least 1"),
    (
        _spec(limits={"load": {"query": "up", "prometheus": "prometheus:9090"}}),
        "spec.limits.load.prometheus",
        "must be a URL",
    ),
    (
        _spec(limits={"connections": 5}, gateway={"staticConfig": {"name": "c"}}),
        "spec.limits",
        "replaces the whole configuration",
    ),
    (_spec(limits={"load": {}}), "spec.limits.load.inFlightPerReplica", "what is high"),
    (
        _spec(limits={"clients": [{"client": "a", "requests": {"perMinute": 1}}]}),
        "spec.limits.clients",
        "without auth",
    ),
    (
        _spec(
            limits={"connectionRate": {"burst": 1, "perFill": 1, "fillInterval": "1ms"}},
        ),
        "spec.limits.connectionRate.fillInterval",
        "at least 50ms",
    ),
    (
        _spec(auth=_KEYS, gateway={"staticConfig": {"name": "c"}}),
        "spec.auth",
        "replaces the whole configuration",
    ),
    (_repository(), "spec.servers[0].modelRepository", "exactly one of"),
    (
        _repository(nfs={"server": "x", "path": "/x"}, directory={"path": "/x"}),
        "spec.servers[0].modelRepository",
        "exactly one of",
    ),
    (_repository(directory={"path": "x"}), "spec.servers[0].modelRepository.directory.path", '"x"'),
    (
        _repository(mountPath="/", directory={"path": "/x"}),
        "spec.servers[0].modelRepository.mountPath",
        "such as /models",
    ),
    (
        _repository(objectStore={"url": "s3://"}),
        "spec.servers[0].modelRepository.objectStore.url",
        "no bucket",
    ),
    (
        _repository(persistentVolumeClaim={"claimName": "c", "subPath": "../../etc"}),
        "spec.servers[0].modelRepository.persistentVolumeClaim.subPath",
        "no '..'",
    ),
    (
        _models({"name": "a"}, {"name": "a"}),
        "spec.servers[0].modelPlacement.models[1]",
        "Duplicate value",
    ),
    (
        _models({"name": "a", "minCopies": 3, "maxCopies": 1}),
        "spec.servers[0].modelPlacement.models[0].minCopies",
        "not exceed maxCopies",
    ),
    (
        _models({"name": "a"}, serverMemory="-1Gi"),
        "spec.servers[0].modelPlacement.serverMemory",
        '"-1Gi"',
    ),
    (
        _spec(monitoring={"scrapeInterval": "1ms"}),
        "spec.monitoring.scrapeInterval",
        "at least 1s",
    ),
    (_spec(paused="yes"), "spec.paused", "boolean"),
)
"""The spec, the field, and part of the message."""

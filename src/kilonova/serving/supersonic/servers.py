"""The group of servers: from `triton`."""

from typing import cast

from kilonova.api.serving import names
from kilonova.serving.monitoring.relabelling import SUPERSONIC_GROUP
from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.keys.triton import STORAGE_TYPES
from kilonova.serving.supersonic.labels import build_pod_labels
from kilonova.serving.supersonic.loads import Load
from kilonova.serving.supersonic.value_types import is_port
from kilonova.serving.supersonic.values import Tree, Values

GROUP = SUPERSONIC_GROUP
"""The group of servers of an instance."""
_DRAIN = "60s"
_REPOSITORY = "triton.modelRepository"
_HANDLERS = ("exec", "httpGet", "tcpSocket")


def build_server_group(values: Values, name: str, load: Load, findings: Findings) -> Tree:
    """The group, with its autoscaling."""
    group: Tree = {
        "name": GROUP,
        "runtime": "Triton",
        "image": values.text("triton.image"),
        "command": values.texts("triton.command"),
        "args": values.texts("triton.args"),
        "ports": build_server_ports(values, findings),
        "drain": _DRAIN,
    }
    if resources := values.object("triton.resources"):
        group["resources"] = normalise_resources(resources)
    group["template"] = _build_template(values, name, group["ports"]["http"])
    if values.flag(f"{_REPOSITORY}.enabled"):
        group["modelRepository"] = _build_repository(values, findings)
    if values.flag("keda.enabled"):
        group["autoscaling"] = _build_autoscaling(values, load, findings)
        if values.flag("scaleFromZero.enabled") and not group["autoscaling"]["minReplicas"]:
            group["replicas"] = 0  # the first request starts the first server
    else:
        group["replicas"] = values.whole("triton.replicas")
    return group


def build_server_ports(values: Values, findings: Findings) -> Tree:
    """The ports by name; 0 for one that the list lacks."""
    found = {"http": 0, "grpc": 0, "metrics": 0}
    for each in values.objects("triton.service.ports"):
        name, port = each.get("name"), each.get("port")
        if not is_port(port):
            findings.refuse(
                "triton.service.ports", f"{name}: port {port!r} is invalid: write 1…65535"
            )
        elif name in found:
            found[name] = port
    if not found["http"]:
        findings.refuse("triton.service.ports", "http is missing: servers answer there if ready")
    return found


def normalise_resources(resources: Tree) -> Tree:
    """Quantities as texts: YAML reads `0.5` as a number, which the API rejects for our kinds."""

    def normalise(value: object) -> object:
        if isinstance(value, dict):
            return {key: normalise(each) for key, each in cast(Tree, value).items()}
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{value:.12g}" if is_number else value

    return cast(Tree, normalise(resources))


def _build_template(values: Values, name: str, http_port: int) -> Tree:
    probes = _build_probes(values, http_port)
    spec: Tree = {}
    if selector := values.map("triton.nodeSelector"):
        spec["nodeSelector"] = selector
    if affinity := values.object("triton.affinity"):
        spec["affinity"] = affinity
    if tolerations := values.objects("triton.tolerations"):
        spec["tolerations"] = tolerations
    metadata: Tree = {"labels": build_pod_labels(name, "triton")}
    if annotations := values.map("triton.annotations"):
        metadata["annotations"] = annotations
    template: Tree = {"metadata": metadata}
    if spec or probes:
        # The first container is the server; a pod has to have one.
        template["spec"] = {**spec, "containers": [{"name": names.SERVER_CONTAINER, **probes}]}
    return template


def _build_probes(values: Values, http_port: int) -> Tree:
    """Probes that the user has written; those of the runtime react faster than the defaults."""
    probes: Tree = {}
    for name in ("readinessProbe", "startupProbe"):
        path = f"triton.{name}"
        if values.has(path) and not values.flag(f"{path}.reset"):
            probes[name] = _build_probe(values, path, http_port)
    return probes


def _build_probe(values: Values, path: str, http_port: int) -> Tree:
    """The timing, and one handler: what the user wrote goes before the default."""
    given = [each for each in _HANDLERS if values.has(f"{path}.{each}")]
    if given:
        probe: Tree = {given[0]: values.object(f"{path}.{given[0]}")}
    elif values.has(f"{path}.command"):
        probe = {"exec": {"command": values.texts(f"{path}.command")}}
    else:
        # Needs no curl in the image, and no marker file: what drains is known to the gateway.
        probe = {"httpGet": {"path": "/v2/health/ready", "port": http_port}}
    if (handler := probe.get("httpGet") or probe.get("tcpSocket")) and handler.get(
        "port"
    ) == "http":
        handler["port"] = http_port
    for field in (
        "initialDelaySeconds",
        "periodSeconds",
        "failureThreshold",
        "timeoutSeconds",
        "successThreshold",
    ):
        if values.is_set(f"{path}.{field}"):
            probe[field] = values.whole(f"{path}.{field}")
    return probe


def _build_repository(values: Values, findings: Findings) -> Tree:
    mount_path = values.text(f"{_REPOSITORY}.mountPath")
    if not mount_path.startswith("/"):
        findings.refuse(f"{_REPOSITORY}.mountPath", f"{mount_path!r} is invalid: write /PATH")
    repository: Tree = {"mountPath": mount_path}

    def require(key: str) -> str:
        path = f"{_REPOSITORY}.{key}"
        if not values.text(path):
            findings.refuse(path, f"is required with storageType: {storage_type}")
        return values.text(path)

    match storage_type := values.text(f"{_REPOSITORY}.storageType"):
        case "pvc":
            repository["persistentVolumeClaim"] = {"claimName": require("pvc.claimName")}
        case "cvmfs-pvc":
            repository["cvmfs"] = {"mount": "PersistentVolumeClaim"}
        case "cvmfs" | "cvmfs-hostPath":
            repository["cvmfs"] = {"mount": "HostPath"}
        case "nfs":
            repository["nfs"] = {"server": require("nfs.server"), "path": require("nfs.path")}
        case "s3":
            repository["objectStore"] = _build_object_store(values, require("s3.url"))
        case _:
            findings.refuse(
                f"{_REPOSITORY}.storageType",
                f"is required with enabled: true: choose from {', '.join(STORAGE_TYPES)}",
            )
    return repository


def _build_object_store(values: Values, url: str) -> Tree:
    store: Tree = {"url": url}
    if endpoint := values.text(f"{_REPOSITORY}.s3.endpoint"):
        store["endpoint"] = endpoint
    if secret := values.text(f"{_REPOSITORY}.s3.secretName"):
        store["credentials"] = {"name": secret}
    return store


def _build_autoscaling(values: Values, load: Load, findings: Findings) -> Tree:
    minimum, maximum = values.whole("keda.minReplicaCount"), values.whole("keda.maxReplicaCount")
    if minimum > maximum:
        findings.refuse(
            "keda.minReplicaCount", f"{minimum} is greater than keda.maxReplicaCount, {maximum}"
        )
    if values.flag("keda.zeroIdleReplicas") and minimum > 1:
        findings.warn(
            "keda.minReplicaCount",
            f"{minimum} has no effect beside keda.zeroIdleReplicas: the first request starts one "
            "server, and more follow the load",
        )
    autoscaling: Tree = {
        "minReplicas": 0 if values.flag("keda.zeroIdleReplicas") else minimum,
        "maxReplicas": maximum,
        **load.build_autoscaling(),
        "scaleUp": _build_rate(values, "keda.scaleUp"),
        "scaleDown": _build_rate(values, "keda.scaleDown"),
        "scaleToZero": _build_scale_to_zero(values),
    }
    if (scaler := values.text("kilonova.scaler")) != "Builtin":
        autoscaling["scaler"] = scaler
    return autoscaling


def _build_rate(values: Values, path: str) -> Tree:
    return {
        "stabilization": f"{values.whole(f'{path}.stabilizationWindowSeconds')}s",
        "maxReplicas": values.whole(f"{path}.stepsize"),
        "period": f"{values.whole(f'{path}.periodSeconds')}s",
    }


def _build_scale_to_zero(values: Values) -> Tree:
    idle = values.whole("keda.cooldownPeriod")
    if not values.flag("scaleFromZero.enabled"):
        return {"idleAfter": f"{idle}s"}
    hold = values.whole("scaleFromZero.holdMinReplicasSeconds")
    return {
        "idleAfter": f"{max(idle, hold)}s",
        "holdTimeout": f"{values.whole('scaleFromZero.readyTimeoutSeconds')}s",
    }

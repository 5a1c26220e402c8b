"""Objects of an instance beside the InferenceService: Services by SuperSONIC's names."""

from kilonova.api.serving import names
from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.gateways import build_ingress
from kilonova.serving.supersonic.labels import build_component_labels
from kilonova.serving.supersonic.servers import GROUP, build_server_ports
from kilonova.serving.supersonic.values import Tree, Values

_COLLECTOR = "metricsCollector"


def build_objects(values: Values, name: str, namespace: str, findings: Findings) -> list[Tree]:
    """The headless Service of the servers, and what `perf_analyzer` reads metrics from."""
    objects = [_build_server_service(values, name, namespace)]
    if values.flag(f"{_COLLECTOR}.enabled"):
        objects.append(_build_metrics_service(values, name, namespace, findings))
        if values.flag(f"{_COLLECTOR}.ingress.enabled"):
            objects.append(_build_metrics_ingress(values, name, namespace, findings))
    return objects


def _build_server_service(values: Values, name: str, namespace: str) -> Tree:
    ports = [
        {
            "name": each.get("name"),
            "port": each.get("port"),
            "targetPort": each.get("targetPort", each.get("port")),
            "protocol": each.get("protocol", "TCP"),
        }
        for each in values.objects("triton.service.ports")
    ]
    metadata: Tree = {
        "name": f"{name}-triton",
        "namespace": namespace,
        "labels": {
            **build_component_labels(name, "triton"),
            **values.map("triton.service.labels"),
        },
    }
    if annotations := values.map("triton.service.annotations"):
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "selector": _select_servers(name), "ports": ports},
    }


def _build_metrics_service(values: Values, name: str, namespace: str, findings: Findings) -> Tree:
    target = build_server_ports(values, findings)["metrics"]
    if not target:
        findings.refuse(f"{_COLLECTOR}.enabled", "needs the port metrics of triton.service.ports")
    port = {
        "name": "metrics",
        "port": _find_collector_port(values),
        "targetPort": target,
        "protocol": "TCP",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _build_collector_metadata(name, namespace),
        "spec": {
            "type": values.text(f"{_COLLECTOR}.service.type"),
            "selector": _select_servers(name),
            "ports": [port],
        },
    }


def _build_metrics_ingress(values: Values, name: str, namespace: str, findings: Findings) -> Tree:
    settings = build_ingress(values, f"{_COLLECTOR}.ingress", findings)
    backend = {
        "service": {
            "name": build_collector(name),
            "port": {"number": _find_collector_port(values)},
        }
    }
    path: Tree = {"path": "/", "pathType": "Prefix", "backend": backend}
    metadata = _build_collector_metadata(name, namespace)
    if "annotations" in settings:
        metadata["annotations"] = settings["annotations"]
    spec: Tree = {
        "rules": [{"host": settings["host"], "http": {"paths": [path]}}],
        "tls": [{"hosts": [settings["host"]]}],
    }
    if "ingressClassName" in settings:
        spec["ingressClassName"] = settings["ingressClassName"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": metadata,
        "spec": spec,
    }


def build_collector(name: str) -> str:
    """The Service and the Ingress of the metrics of servers."""
    return f"{name}-metrics-collector"


def _find_collector_port(values: Values) -> int:
    chosen = f"{_COLLECTOR}.service.port"
    return values.whole(chosen if values.is_set(chosen) else f"{_COLLECTOR}.port")


def _build_collector_metadata(name: str, namespace: str) -> Tree:
    return {
        "name": build_collector(name),
        "namespace": namespace,
        "labels": build_component_labels(name, "metrics-collector"),
    }


def _select_servers(name: str) -> dict[str, str]:
    return {names.SERVICE: name, names.SERVER: GROUP, names.ENTRY: "true"}

"""Defaults of a pod's spec, in pods and in the templates that pods are made from."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import inside, objects, part

_FILE_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_WITH_FILE_MODE = ("secret", "configMap", "downwardAPI", "projected")


def fill_pod_spec(spec: JsonObject) -> None:
    """What every pod spec has; a pod itself gets a few more on top."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    # The old name of the field is kept in step with the new one, whichever was given.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in objects(spec, field):
            fill_container(container)
    for volume in objects(spec, "volumes"):
        fill_volume(volume)


def fill_template(template: JsonObject) -> None:
    """A pod template: its spec."""
    fill_pod_spec(inside(template, "spec"))


def fill_container(container: JsonObject) -> None:
    """Pull policy by tag, ports, probes and references to the pod's own fields."""
    if "imagePullPolicy" not in container:
        latest = _tag(container.get("image", "")) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in objects(container, "ports"):
        port.setdefault("protocol", "TCP")
    for variable in objects(container, "env"):
        source = variable.get("valueFrom")
        if source:
            _fill_field_reference(source.get("fieldRef"))
            if source.get("fileKeyRef"):
                source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            _fill_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for moment in ("postStart", "preStop"):
            _fill_http(lifecycle.get(moment, {}).get("httpGet"))


def fill_volume(volume: JsonObject) -> None:
    """A volume without a source is an empty folder."""
    sources = [source for source in volume if source != "name"]
    if not sources:
        volume["emptyDir"] = {}
        return
    for source in sources:
        value = volume[source]
        if source in _WITH_FILE_MODE:
            value.setdefault("defaultMode", _FILE_MODE)
        if fill := _VOLUME_FILLS.get(source):
            fill(value)


def _fill_probe(probe: JsonObject) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(field, value)
    _fill_http(probe.get("httpGet"))
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _fill_http(action: JsonObject | None) -> None:
    if action:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _fill_field_reference(reference: JsonObject | None) -> None:
    if reference:
        reference.setdefault("apiVersion", "v1")


def _fill_projected(value: JsonObject) -> None:
    for source in objects(value, "sources"):
        if token := source.get("serviceAccountToken"):
            token.setdefault("expirationSeconds", 3600)
        _fill_downward(part(source, "downwardAPI"))


def _fill_downward(value: JsonObject) -> None:
    for item in objects(value, "items"):
        _fill_field_reference(item.get("fieldRef"))


def _fill_claim(value: JsonObject) -> None:
    if template := value.get("volumeClaimTemplate"):
        inside(template, "spec").setdefault("volumeMode", "Filesystem")


def _fill_image(value: JsonObject) -> None:
    latest = _tag(value.get("reference", "")) == "latest"
    value.setdefault("pullPolicy", "Always" if latest else "IfNotPresent")


def _defaults(**values: Any) -> Any:
    def fill(value: JsonObject) -> None:
        for field, default in values.items():
            value.setdefault(field, default)

    return fill


_VOLUME_FILLS: dict[str, Any] = {
    "hostPath": _defaults(type=""),
    "projected": _fill_projected,
    "downwardAPI": _fill_downward,
    "ephemeral": _fill_claim,
    "image": _fill_image,
    "iscsi": _defaults(iscsiInterface="default"),
    "rbd": _defaults(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _defaults(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _defaults(storageMode="ThinProvisioned", fsType="xfs"),
}


def _tag(image: str) -> str:
    """The tag of an image: `latest` where neither tag nor digest is given."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if colon:
        return tag
    return "" if digest or not image else "latest"

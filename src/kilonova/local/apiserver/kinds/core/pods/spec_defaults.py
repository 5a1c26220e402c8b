"""Defaults of a pod spec, in pods and in pod templates."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects

_FILE_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def set_pod_spec_defaults(spec: JsonObject) -> None:
    """Set the defaults of any pod spec; pods have a few more."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
    # The deprecated field is kept equal to the new one, whichever was set.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in nested_objects(spec, field):
            set_container_defaults(container)
    for volume in nested_objects(spec, "volumes"):
        set_volume_defaults(volume)


def set_template_defaults(template: JsonObject) -> None:
    """Set the defaults of a pod template."""
    set_pod_spec_defaults(ensure_object(template, "spec"))


def set_container_defaults(container: JsonObject) -> None:
    """Set the defaults of a container: pull policy by tag, ports, probes, field references."""
    if "imagePullPolicy" not in container:
        latest = _image_tag(container.get("image", "")) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in nested_objects(container, "ports"):
        port.setdefault("protocol", "TCP")
    for variable in nested_objects(container, "env"):
        source = variable.get("valueFrom")
        if source:
            _set_field_ref_defaults(source.get("fieldRef"))
            if source.get("fileKeyRef"):
                source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            _set_probe_defaults(probe)
    if lifecycle := container.get("lifecycle"):
        for hook in ("postStart", "preStop"):
            _set_http_defaults(lifecycle.get(hook, {}).get("httpGet"))


def set_volume_defaults(volume: JsonObject) -> None:
    """Set the defaults of a volume; without a source it is an emptyDir."""
    sources = [source for source in volume if source != "name"]
    if not sources:
        volume["emptyDir"] = {}
        return
    for source in sources:
        value = volume[source]
        if source in _SOURCES_WITH_MODE:
            value.setdefault("defaultMode", _FILE_MODE)
        if set_source_defaults := _VOLUME_DEFAULTS.get(source):
            set_source_defaults(value)


def _set_probe_defaults(probe: JsonObject) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(field, value)
    _set_http_defaults(probe.get("httpGet"))
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _set_http_defaults(action: JsonObject | None) -> None:
    if action:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _set_field_ref_defaults(reference: JsonObject | None) -> None:
    if reference:
        reference.setdefault("apiVersion", "v1")


def _set_projected_defaults(value: JsonObject) -> None:
    for source in nested_objects(value, "sources"):
        if token := source.get("serviceAccountToken"):
            token.setdefault("expirationSeconds", 3600)
        _set_downward_api_defaults(nested_object(source, "downwardAPI"))


def _set_downward_api_defaults(value: JsonObject) -> None:
    for item in nested_objects(value, "items"):
        _set_field_ref_defaults(item.get("fieldRef"))


def _set_claim_template_defaults(value: JsonObject) -> None:
    if template := value.get("volumeClaimTemplate"):
        ensure_object(template, "spec").setdefault("volumeMode", "Filesystem")


def _set_image_defaults(value: JsonObject) -> None:
    latest = _image_tag(value.get("reference", "")) == "latest"
    value.setdefault("pullPolicy", "Always" if latest else "IfNotPresent")


def _default_setter(**values: Any) -> Any:
    def set_defaults(value: JsonObject) -> None:
        for field, default in values.items():
            value.setdefault(field, default)

    return set_defaults


_VOLUME_DEFAULTS: dict[str, Any] = {
    "hostPath": _default_setter(type=""),
    "projected": _set_projected_defaults,
    "downwardAPI": _set_downward_api_defaults,
    "ephemeral": _set_claim_template_defaults,
    "image": _set_image_defaults,
    "iscsi": _default_setter(iscsiInterface="default"),
    "rbd": _default_setter(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _default_setter(
        cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"
    ),
    "scaleIO": _default_setter(storageMode="ThinProvisioned", fsType="xfs"),
}


def _image_tag(image: str) -> str:
    """The tag of an image: `latest` if it has neither tag nor digest."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if colon:
        return tag
    return "" if digest or not image else "latest"

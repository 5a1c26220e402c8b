"""Validation of a pod spec, in pods and in pod templates."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import quantity_from_json as quantity
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import (
    dns_label_error,
    dns_subdomain_error,
    env_name_error,
    port_name_error,
    qualified_name_error,
    validate_annotations,
    validate_labels,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.kinds.core.pods.claim_validation import validate_pod_claims
from kilonova.local.apiserver.kinds.core.pods.container_validation import (
    validate_container_fields,
    validate_run_as_ids,
)
from kilonova.local.apiserver.kinds.core.pods.ephemeral_containers import (
    validate_ephemeral_containers,
)
from kilonova.local.apiserver.kinds.core.pods.volume_validation import validate_volume_source
from kilonova.local.apiserver.kinds.validation import (
    validate_enum,
    validate_label_selector,
    validate_not_negative,
    validate_port_number,
)

_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_DNS_POLICIES = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]
_MESSAGE_POLICIES = ["FallbackToLogsOnError", "File"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def validate_pod_template(template: JsonObject, path: str) -> list[FieldError]:
    """Validate labels, annotations and spec of a pod template."""
    meta = nested_object(template, "metadata")
    return [
        *validate_labels(meta.get("labels"), f"{path}.labels"),
        *validate_annotations(meta.get("annotations"), f"{path}.annotations"),
        *validate_pod_spec(nested_object(template, "spec"), f"{path}.spec"),
    ]


def validate_pod_spec(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate a pod spec."""
    volumes = _volume_names(spec)
    problems = list(_validate_volumes(nested_objects(spec, "volumes"), f"{path}.volumes"))
    containers = nested_objects(spec, "containers")
    if not containers:
        problems.append(required_value(f"{path}.containers"))
    names: set[str] = set()
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(nested_objects(spec, field)):
            item_path = f"{path}.{field}[{index}]"
            problems += _validate_container(container, item_path, volumes)
            grace = spec.get("terminationGracePeriodSeconds")
            problems += validate_container_fields(container, item_path, grace)
            name = container.get("name", "")
            if name and name in names:
                problems.append(duplicate_value(f"{item_path}.name", name))
            names.add(name)
    problems += validate_pod_claims(spec, path)
    problems += validate_ephemeral_containers(spec, f"{path}.ephemeralContainers")
    problems += _validate_host_ports(containers, f"{path}.containers")
    problems += validate_enum(spec.get("restartPolicy"), f"{path}.restartPolicy", _RESTART_POLICIES)
    problems += validate_enum(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    problems += validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    problems += validate_names_in_spec(spec, path)
    problems += validate_not_negative(spec, path, ["terminationGracePeriodSeconds"])
    context, id_fields = (
        nested_object(spec, "securityContext"),
        ("runAsUser", "runAsGroup", "fsGroup"),
    )
    problems += validate_run_as_ids(context, f"{path}.securityContext", id_fields)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        problems.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, detail))
    problems += validate_tolerations(nested_objects(spec, "tolerations"), f"{path}.tolerations")
    problems += _validate_topology_spread(spec, f"{path}.topologySpreadConstraints")
    problems += _validate_scheduling_gates(spec, path)
    return problems


def validate_names_in_spec(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Names in a spec that are validated independently of other fields."""
    for field, rule in (
        ("nodeName", dns_subdomain_error),
        ("serviceAccountName", dns_subdomain_error),
        ("priorityClassName", dns_subdomain_error),
        ("hostname", dns_label_error),
        ("subdomain", dns_label_error),
        ("runtimeClassName", dns_subdomain_error),
    ):
        value = spec.get(field)
        if value and (error := rule(value)):
            yield invalid_value(f"{path}.{field}", value, error)


def _validate_container(
    container: JsonObject, path: str, volumes: set[str]
) -> Iterator[FieldError]:
    name = container.get("name", "")
    if not name:
        yield required_value(f"{path}.name")
    elif error := dns_label_error(name):
        yield invalid_value(f"{path}.name", name, error)
    image = container.get("image", "")
    if not image:
        yield required_value(f"{path}.image")
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid_value(f"{path}.image", image, detail)
    yield from validate_enum(
        container.get("terminationMessagePolicy"),
        f"{path}.terminationMessagePolicy",
        _MESSAGE_POLICIES,
    )
    yield from _validate_container_ports(nested_objects(container, "ports"), f"{path}.ports")
    for index, variable in enumerate(nested_objects(container, "env")):
        item_path = f"{path}.env[{index}]"
        if not variable.get("name"):
            yield required_value(f"{item_path}.name")
        elif error := env_name_error(variable["name"]):
            yield invalid_value(f"{item_path}.name", variable["name"], error)
        if variable.get("value") and variable.get("valueFrom"):
            yield invalid_value(
                f"{item_path}.valueFrom", "", "may not be specified when `value` is not empty"
            )
    yield from _validate_volume_mounts(
        nested_objects(container, "volumeMounts"), f"{path}.volumeMounts", volumes
    )
    yield from validate_enum(
        container.get("imagePullPolicy"), f"{path}.imagePullPolicy", _PULL_POLICIES
    )
    yield from validate_resources(nested_object(container, "resources"), f"{path}.resources")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (value := container.get(probe)) is not None:
            yield from _validate_probe(value, f"{path}.{probe}", probe)


def _validate_container_ports(ports: list[JsonObject], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        item_path = f"{path}[{index}]"
        if name := port.get("name"):
            if error := port_name_error(name):
                yield invalid_value(f"{item_path}.name", name, error)
            elif name in names:
                yield duplicate_value(f"{item_path}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required_value(f"{item_path}.containerPort")
        else:
            yield from validate_port_number(port["containerPort"], f"{item_path}.containerPort")
        if host_port := port.get("hostPort"):
            yield from validate_port_number(host_port, f"{item_path}.hostPort")
        yield from validate_enum(port.get("protocol"), f"{item_path}.protocol", _PROTOCOLS)


def _validate_host_ports(containers: list[JsonObject], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(nested_objects(container, "ports")):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in names:
                yield duplicate_value(f"{path}[{index}].ports[{position}].hostPort", key)
            names.add(key)


def _validate_volume_mounts(
    mounts: list[JsonObject], path: str, volumes: set[str]
) -> Iterator[FieldError]:
    mount_paths: set[str] = set()
    for index, mount in enumerate(mounts):
        item_path = f"{path}[{index}]"
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required_value(f"{item_path}.name")
        elif name not in volumes:
            yield FieldError(f"{item_path}.name", "FieldValueNotFound", f'Not found: "{name}"')
        if not mount_path:
            yield required_value(f"{item_path}.mountPath")
        elif mount_path in mount_paths:
            yield invalid_value(f"{item_path}.mountPath", mount_path, "must be unique")
        mount_paths.add(mount_path)


def _validate_probe(probe: JsonObject, path: str, name: str) -> Iterator[FieldError]:
    handlers = [each for each in ("exec", "httpGet", "tcpSocket", "grpc") if each in probe]
    if not handlers:
        yield required_value(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden_value(f"{path}.{extra}", "may not specify more than 1 handler type")
    fields = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
    yield from validate_not_negative(probe, path, [*fields, "successThreshold"])
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def validate_resources(resources: JsonObject, path: str) -> Iterator[FieldError]:
    """Names and amounts of requests and limits; no request above its limit."""
    limits = nested_object(resources, "limits")
    requests = nested_object(resources, "requests")
    for field, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            yield from _validate_quantity(name, value, f"{path}.{field}", name)
    for name, value in requests.items():
        requests_path = f"{path}.requests"
        limit = _parse_quantity(limits.get(name))
        request = _parse_quantity(value)
        if limit is None or request is None:
            if limit is None and name not in _STANDARD_RESOURCES and not _is_native_resource(name):
                yield required_value(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )
        elif not _allows_overcommit(name) and request != limit:
            yield invalid_value(
                requests_path, value, f"must be equal to {name} limit of {limits[name]}"
            )
        elif request > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(requests_path, value, detail)


def _validate_quantity(name: str, value: Any, path: str, key: str) -> Iterator[FieldError]:
    if error := qualified_name_error(name):
        yield invalid_value(f"{path}[{key}]", name, error)
    elif "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        for detail in (
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ):
            yield invalid_value(f"{path}[{key}]", name, detail)
    amount = _parse_quantity(value)
    if amount is None:
        return
    if amount.nano < 0:
        yield invalid_value(f"{path}[{key}]", value, "must be greater than or equal to 0")
    elif not _is_native_resource(name) and not amount.is_integer:
        yield invalid_value(f"{path}[{key}]", value, "must be an integer")


def _parse_quantity(value: Any) -> Quantity | None:
    if value is None:
        return None
    try:
        return quantity(value)
    except QuantityError:
        return None


def _is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _allows_overcommit(name: str) -> bool:
    return _is_native_resource(name) and not name.startswith("hugepages-")


def _volume_names(spec: JsonObject) -> set[str]:
    return {volume.get("name", "") for volume in nested_objects(spec, "volumes")}


def _validate_volumes(volumes: list[JsonObject], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        item_path = f"{path}[{index}]"
        name = volume.get("name", "")
        sources = [source for source in volume if source != "name"]
        for source in sources[:1]:
            yield from validate_volume_source(
                source, nested_object(volume, source), f"{item_path}.{source}"
            )
        for extra in sources[1:]:
            yield forbidden_value(f"{item_path}.{extra}", "may not specify more than 1 volume type")
        if not name:
            yield required_value(f"{item_path}.name")
        elif error := dns_label_error(name):
            yield invalid_value(f"{item_path}.name", name, error)
        elif name in names:
            yield duplicate_value(f"{item_path}.name", name)
        names.add(name)


def validate_tolerations(tolerations: list[JsonObject], path: str) -> Iterator[FieldError]:
    """Validate tolerations, of a pod or of a RuntimeClass."""
    for index, toleration in enumerate(tolerations):
        item_path = f"{path}[{index}]"
        key, operator = toleration.get("key"), toleration.get("operator")
        if key and (error := qualified_name_error(key)):
            yield invalid_value(f"{item_path}.key", key, error)
        if not key and operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            yield invalid_value(f"{item_path}.operator", operator or "", detail)
        if toleration.get("tolerationSeconds") is not None and (
            toleration.get("effect") != "NoExecute"
        ):
            yield invalid_value(
                f"{item_path}.effect",
                toleration.get("effect", ""),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        if operator == "Exists" and toleration.get("value"):
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{item_path}.operator", toleration["value"], detail)
        elif operator not in (None, "", "Equal", "Exists"):
            yield not_supported_value(f"{item_path}.operator", operator, ["Equal", "Exists"])
        effect = toleration.get("effect")
        if effect:
            allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
            yield from validate_enum(effect, f"{item_path}.effect", allowed)


def _validate_topology_spread(spec: JsonObject, path: str) -> Iterator[FieldError]:
    for index, constraint in enumerate(nested_objects(spec, "topologySpreadConstraints")):
        item_path = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid_value(
                f"{item_path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"
            )
        if not constraint.get("topologyKey"):
            yield required_value(f"{item_path}.topologyKey", "can not be empty")
        yield from validate_enum(
            constraint.get("whenUnsatisfiable"),
            f"{item_path}.whenUnsatisfiable",
            ["DoNotSchedule", "ScheduleAnyway"],
        )
        yield from validate_label_selector(
            constraint.get("labelSelector"), f"{item_path}.labelSelector"
        )


def _validate_scheduling_gates(spec: JsonObject, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, gate in enumerate(nested_objects(spec, "schedulingGates")):
        item_path = f"{path}.schedulingGates[{index}]"
        name = gate.get("name", "")
        if error := qualified_name_error(name):
            yield invalid_value(item_path, name, error)
        if name in names:
            yield duplicate_value(item_path, name)
        names.add(name)
    if names and nested_value(spec, "nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden_value(f"{path}.nodeName", detail)

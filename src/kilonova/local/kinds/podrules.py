"""Rules for a pod's spec, in pods and in templates."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import from_json as quantity
from kilonova.local.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilonova.local.kinds.containerrules import container_part_problems, identity_problems
from kilonova.local.kinds.ephemeralcontainers import ephemeral_problems
from kilonova.local.kinds.podclaims import pod_claim_problems
from kilonova.local.kinds.rules import label_selector_problems, not_negative, one_of, port_number
from kilonova.local.kinds.volumerules import volume_source_problems
from kilonova.local.kinds.walk import at, objects, part
from kilonova.local.names import (
    annotation_problems,
    dns_label,
    dns_subdomain,
    env_name,
    label_problems,
    port_name,
    qualified_name,
)

_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
_RESTART_POLICIES = ["Always", "OnFailure", "Never"]
_DNS_POLICIES = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]
_MESSAGE_POLICIES = ["FallbackToLogsOnError", "File"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def template_problems(template: JsonObject, path: str) -> list[Problem]:
    """A pod template: labels, annotations and spec."""
    meta = part(template, "metadata")
    return [
        *label_problems(meta.get("labels"), f"{path}.labels"),
        *annotation_problems(meta.get("annotations"), f"{path}.annotations"),
        *pod_spec_problems(part(template, "spec"), f"{path}.spec"),
    ]


def pod_spec_problems(spec: JsonObject, path: str) -> list[Problem]:
    """The spec on its own."""
    volumes = _volume_names(spec)
    problems = list(_volume_problems(objects(spec, "volumes"), f"{path}.volumes"))
    containers = objects(spec, "containers")
    if not containers:
        problems.append(required(f"{path}.containers"))
    names: set[str] = set()
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(objects(spec, field)):
            here = f"{path}.{field}[{index}]"
            problems += _container_problems(container, here, volumes)
            grace = spec.get("terminationGracePeriodSeconds")
            problems += container_part_problems(container, here, grace)
            name = container.get("name", "")
            if name and name in names:
                problems.append(duplicate(f"{here}.name", name))
            names.add(name)
    problems += pod_claim_problems(spec, path)
    problems += ephemeral_problems(spec, f"{path}.ephemeralContainers")
    problems += _host_port_problems(containers, f"{path}.containers")
    problems += one_of(spec.get("restartPolicy"), f"{path}.restartPolicy", _RESTART_POLICIES)
    problems += one_of(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    problems += label_problems(spec.get("nodeSelector"), f"{path}.nodeSelector")
    problems += name_problems(spec, path)
    problems += not_negative(spec, path, ["terminationGracePeriodSeconds"])
    context, identities = part(spec, "securityContext"), ("runAsUser", "runAsGroup", "fsGroup")
    problems += identity_problems(context, f"{path}.securityContext", identities)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        problems.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, detail))
    problems += toleration_problems(objects(spec, "tolerations"), f"{path}.tolerations")
    problems += _spread_problems(spec, f"{path}.topologySpreadConstraints")
    problems += _gate_problems(spec, path)
    return problems


def name_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    """Names that a spec mentions by themselves."""
    for field, rule in (
        ("nodeName", dns_subdomain),
        ("serviceAccountName", dns_subdomain),
        ("priorityClassName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("runtimeClassName", dns_subdomain),
    ):
        value = spec.get(field)
        if value and (trouble := rule(value)):
            yield invalid_value(f"{path}.{field}", value, trouble)


def _container_problems(container: JsonObject, path: str, volumes: set[str]) -> Iterator[Problem]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif trouble := dns_label(name):
        yield invalid_value(f"{path}.name", name, trouble)
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid_value(f"{path}.image", image, detail)
    yield from one_of(
        container.get("terminationMessagePolicy"),
        f"{path}.terminationMessagePolicy",
        _MESSAGE_POLICIES,
    )
    yield from _port_problems(objects(container, "ports"), f"{path}.ports")
    for index, variable in enumerate(objects(container, "env")):
        here = f"{path}.env[{index}]"
        if not variable.get("name"):
            yield required(f"{here}.name")
        elif trouble := env_name(variable["name"]):
            yield invalid_value(f"{here}.name", variable["name"], trouble)
        if variable.get("value") and variable.get("valueFrom"):
            yield invalid_value(
                f"{here}.valueFrom", "", "may not be specified when `value` is not empty"
            )
    yield from _mount_problems(objects(container, "volumeMounts"), f"{path}.volumeMounts", volumes)
    yield from one_of(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", _PULL_POLICIES)
    yield from resource_problems(part(container, "resources"), f"{path}.resources")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (value := container.get(probe)) is not None:
            yield from _probe_problems(value, f"{path}.{probe}", probe)


def _port_problems(ports: list[JsonObject], path: str) -> Iterator[Problem]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if name := port.get("name"):
            if trouble := port_name(name):
                yield invalid_value(f"{here}.name", name, trouble)
            elif name in names:
                yield duplicate(f"{here}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{here}.containerPort")
        else:
            yield from port_number(port["containerPort"], f"{here}.containerPort")
        if host_port := port.get("hostPort"):
            yield from port_number(host_port, f"{here}.hostPort")
        yield from one_of(port.get("protocol"), f"{here}.protocol", _PROTOCOLS)


def _host_port_problems(containers: list[JsonObject], path: str) -> Iterator[Problem]:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(objects(container, "ports")):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            taken.add(key)


def _mount_problems(mounts: list[JsonObject], path: str, volumes: set[str]) -> Iterator[Problem]:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{here}.name")
        elif name not in volumes:
            yield Problem(f"{here}.name", "FieldValueNotFound", f'Not found: "{name}"')
        if not place:
            yield required(f"{here}.mountPath")
        elif place in places:
            yield invalid_value(f"{here}.mountPath", place, "must be unique")
        places.add(place)


def _probe_problems(probe: JsonObject, path: str, name: str) -> Iterator[Problem]:
    handlers = [each for each in ("exec", "httpGet", "tcpSocket", "grpc") if each in probe]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type")
    fields = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
    yield from not_negative(probe, path, [*fields, "successThreshold"])
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def resource_problems(resources: JsonObject, path: str) -> Iterator[Problem]:
    """Names and amounts of requests and limits; no request above its limit."""
    limits = part(resources, "limits")
    requests = part(resources, "requests")
    for field, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            yield from _amount_problems(name, value, f"{path}.{field}", name)
    for name, value in requests.items():
        here = f"{path}.requests"
        limit = _parsed(limits.get(name))
        request = _parsed(value)
        if limit is None or request is None:
            if limit is None and name not in _STANDARD and not _is_native(name):
                yield required(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )
        elif not _may_overcommit(name) and request != limit:
            yield invalid_value(here, value, f"must be equal to {name} limit of {limits[name]}")
        elif request > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(here, value, detail)


def _amount_problems(name: str, value: Any, path: str, key: str) -> Iterator[Problem]:
    if trouble := qualified_name(name):
        yield invalid_value(f"{path}[{key}]", name, trouble)
    elif "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        for detail in (
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ):
            yield invalid_value(f"{path}[{key}]", name, detail)
    amount = _parsed(value)
    if amount is None:
        return
    if amount.nano < 0:
        yield invalid_value(f"{path}[{key}]", value, "must be greater than or equal to 0")
    elif not _is_native(name) and not amount.is_integer:
        yield invalid_value(f"{path}[{key}]", value, "must be an integer")


def _parsed(value: Any) -> Quantity | None:
    if value is None:
        return None
    try:
        return quantity(value)
    except QuantityError:
        return None


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith("hugepages-")


def _volume_names(spec: JsonObject) -> set[str]:
    return {volume.get("name", "") for volume in objects(spec, "volumes")}


def _volume_problems(volumes: list[JsonObject], path: str) -> Iterator[Problem]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        name = volume.get("name", "")
        sources = [source for source in volume if source != "name"]
        for source in sources[:1]:
            yield from volume_source_problems(source, part(volume, source), f"{here}.{source}")
        for extra in sources[1:]:
            yield forbidden_field(f"{here}.{extra}", "may not specify more than 1 volume type")
        if not name:
            yield required(f"{here}.name")
        elif trouble := dns_label(name):
            yield invalid_value(f"{here}.name", name, trouble)
        elif name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)


def toleration_problems(tolerations: list[JsonObject], path: str) -> Iterator[Problem]:
    """What is wrong with tolerations, of a pod or of a class of pods."""
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator = toleration.get("key"), toleration.get("operator")
        if key and (trouble := qualified_name(key)):
            yield invalid_value(f"{here}.key", key, trouble)
        if not key and operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            yield invalid_value(f"{here}.operator", operator or "", detail)
        if toleration.get("tolerationSeconds") is not None and (
            toleration.get("effect") != "NoExecute"
        ):
            yield invalid_value(
                f"{here}.effect",
                toleration.get("effect", ""),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        if operator == "Exists" and toleration.get("value"):
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{here}.operator", toleration["value"], detail)
        elif operator not in (None, "", "Equal", "Exists"):
            yield not_supported(f"{here}.operator", operator, ["Equal", "Exists"])
        effect = toleration.get("effect")
        if effect:
            allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
            yield from one_of(effect, f"{here}.effect", allowed)


def _spread_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    for index, constraint in enumerate(objects(spec, "topologySpreadConstraints")):
        here = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid_value(
                f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"
            )
        if not constraint.get("topologyKey"):
            yield required(f"{here}.topologyKey", "can not be empty")
        yield from one_of(
            constraint.get("whenUnsatisfiable"),
            f"{here}.whenUnsatisfiable",
            ["DoNotSchedule", "ScheduleAnyway"],
        )
        yield from label_selector_problems(constraint.get("labelSelector"), f"{here}.labelSelector")


def _gate_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    names: set[str] = set()
    for index, gate in enumerate(objects(spec, "schedulingGates")):
        here = f"{path}.schedulingGates[{index}]"
        name = gate.get("name", "")
        if trouble := qualified_name(name):
            yield invalid_value(here, name, trouble)
        if name in names:
            yield duplicate(here, name)
        names.add(name)
    if names and at(spec, "nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden_field(f"{path}.nodeName", detail)

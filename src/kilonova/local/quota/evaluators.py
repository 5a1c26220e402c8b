"""Quota usage of objects, and the quotas that they match. Pure.

Resource names are those of `spec.hard`: `pods`, `requests.cpu`, `count/deployments.apps`,
`gold.storageclass.storage.k8s.io/requests.storage` …
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.pods.resources import HUGE_PAGES_PREFIX, add_amounts, is_pod_level_resource
from kilonova.api.quantity import Quantity
from kilonova.api.times import parse_time
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.objects.qos import qos_class
from kilonova.local.quota.resource_lists import ResourceList, parse_resource_list, pod_resources

ONE_OBJECT = Quantity(10**9)
NO_OBJECTS = Quantity(0)

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
_PLAIN_COUNT_RESOURCES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Resources that are also counted by their plain name."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {
        PODS,
        f"count/{PODS}",
        *_COMPUTE,
        *(f"{field}.{name}" for field in ("requests", "limits") for name in _COMPUTE),
    }
)
_SERVICE_NAMES = frozenset(
    {SERVICES, f"count/{SERVICES}", "services.nodeports", "services.loadbalancers"}
)
_CLAIM_NAMES = frozenset({CLAIMS, f"count/{CLAIMS}", "requests.storage"})
_STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_REQUIRED_RESOURCES = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


def object_count_name(resource: str) -> str:
    """The name of a resource's (`deployments.apps`) object count."""
    return f"count/{resource}"


def resource_for_name(name: str) -> str:
    """The resource whose objects use a quota name; empty if there is none."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in _SERVICE_NAMES:
        return SERVICES
    if name in _CLAIM_NAMES or _STORAGE_CLASS_SUFFIX in name:
        return CLAIMS
    if name in _PLAIN_COUNT_RESOURCES:
        return name
    return PODS if name in matching_names(PODS, [name]) else ""


def matching_names(resource: str, names: Iterable[str]) -> list[str]:
    """The names, of those given, that objects of a resource use."""
    if resource == PODS:
        return [name for name in names if name in _POD_NAMES or _is_pod_resource_name(name)]
    if resource == SERVICES:
        return [name for name in names if name in _SERVICE_NAMES]
    if resource == CLAIMS:
        return [name for name in names if name in _CLAIM_NAMES or _is_storage_class_name(name)]
    counted = {
        object_count_name(resource),
        *([resource] if resource in _PLAIN_COUNT_RESOURCES else []),
    }
    return [name for name in names if name in counted]


def object_usage(resource: str, obj: JsonObject, now: datetime | None = None) -> ResourceList:
    """The usage of one object. With a time, pods that should be deleted by then use nothing."""
    if resource == PODS:
        return _pod_usage(obj, now)
    if resource == SERVICES:
        return _service_usage(obj)
    if resource == CLAIMS:
        return _claim_usage(obj)
    return dict.fromkeys(
        matching_names(resource, [object_count_name(resource), resource]), ONE_OBJECT
    )


def has_deadline(pod: JsonObject) -> bool:
    """Whether a pod has a deadline: the scope Terminating."""
    return nested_value(pod, "spec", "activeDeadlineSeconds") is not None


def matches_scopes(resource: str, obj: JsonObject, quota_spec: JsonObject) -> bool:
    """Whether an object matches a quota's scopes."""
    requirements: list[JsonObject] = [
        {"scopeName": scope, "operator": "Exists"} for scope in quota_spec.get("scopes") or ()
    ]
    requirements += nested_objects(quota_spec, "scopeSelector", "matchExpressions")
    return all(_matches_scope(resource, obj, each) for each in requirements)


def missing_resources(pod: JsonObject, names: Iterable[str]) -> str:
    """The resources in a quota that a pod's containers do not set; empty if all are set."""
    spec = nested_object(pod, "spec")
    if _has_pod_level_resources(spec):
        return ""
    required = _REQUIRED_RESOURCES.intersection(names)
    missing: dict[str, set[str]] = {}
    for container in (*nested_objects(spec, "containers"), *nested_objects(spec, "initContainers")):
        resources = nested_object(container, "resources")
        set_resources = _compute_usage(
            parse_resource_list(nested_object(resources, "requests")),
            parse_resource_list(nested_object(resources, "limits")),
        )
        for name in required - set_resources.keys():
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _pod_usage(pod: JsonObject, now: datetime | None) -> ResourceList:
    used: ResourceList = {object_count_name(PODS): ONE_OBJECT}
    if nested_object(pod, "status").get("phase") in ("Failed", "Succeeded"):
        return used
    if now is not None and _is_past_deletion(pod, now):
        return used
    spec = nested_object(pod, "spec")
    used[PODS] = ONE_OBJECT
    add_amounts(
        used, _compute_usage(pod_resources(spec, "requests"), pod_resources(spec, "limits"))
    )
    return used


def _is_past_deletion(pod: JsonObject, now: datetime) -> bool:
    """A pod past its deletion time (its node is lost, for example) does not count."""
    metadata = nested_object(pod, "metadata")
    end, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return bool(end) and grace is not None and now > parse_time(end) + timedelta(seconds=grace)


def _compute_usage(requests: ResourceList, limits: ResourceList) -> ResourceList:
    used: ResourceList = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            used[name] = used[f"requests.{name}"] = amount
        elif _is_extended_resource(name):
            used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return used


def _service_usage(service: JsonObject) -> ResourceList:
    spec = nested_object(service, "spec")
    kind, ports = spec.get("type", ""), nested_objects(spec, "ports")
    node_ports = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and _allocates_node_ports(spec)):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    return {
        object_count_name(SERVICES): ONE_OBJECT,
        SERVICES: ONE_OBJECT,
        "services.nodeports": Quantity(node_ports * ONE_OBJECT.nano),
        "services.loadbalancers": ONE_OBJECT if kind == "LoadBalancer" else NO_OBJECTS,
    }


def _allocates_node_ports(spec: JsonObject) -> bool:
    return spec.get("allocateLoadBalancerNodePorts") is not False


def _claim_usage(claim: JsonObject) -> ResourceList:
    used: ResourceList = {CLAIMS: ONE_OBJECT, object_count_name(CLAIMS): ONE_OBJECT}
    class_name = nested_object(claim, "metadata", "annotations").get(
        "volume.beta.kubernetes.io/storage-class"
    ) or nested_object(claim, "spec").get("storageClassName")
    requested = parse_resource_list(nested_object(claim, "spec", "resources", "requests")).get(
        "storage"
    )
    if requested is not None:
        allocated = parse_resource_list(nested_object(claim, "status", "allocatedResources")).get(
            "storage", requested
        )
        charged = max(requested, allocated)
        used["requests.storage"] = Quantity(charged.value * ONE_OBJECT.nano, charged.format)
    if class_name:
        used |= {
            f"{class_name}{_STORAGE_CLASS_SUFFIX}{name}": used[name]
            for name in _CLAIM_NAMES & used.keys()
        }
        used.pop(f"{class_name}{_STORAGE_CLASS_SUFFIX}{object_count_name(CLAIMS)}")
    return used


def _matches_scope(resource: str, obj: JsonObject, requirement: JsonObject) -> bool:
    if resource != PODS:
        return False
    scope = requirement.get("scopeName")
    spec = nested_object(obj, "spec")
    if scope in ("Terminating", "NotTerminating"):
        return has_deadline(obj) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") is (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec)
    if scope == "PriorityClass":
        name = spec.get("priorityClassName")
        if requirement.get("operator") == "Exists":
            return bool(name)
        rule = {
            "key": scope,
            "operator": requirement.get("operator"),
            "values": requirement.get("values"),
        }
        return selector_from_object({"matchExpressions": [rule]}).matches(
            {scope: name} if name else {}
        )
    return False


def _crosses_namespaces(spec: JsonObject) -> bool:
    terms: list[JsonObject] = []
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = nested_object(spec, "affinity", field)
        terms += nested_objects(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = nested_objects(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [nested_object(each, "podAffinityTerm") for each in preferred]
    return any(each.get("namespaces") or "namespaceSelector" in each for each in terms)


def _has_pod_level_resources(spec: JsonObject) -> bool:
    resources = nested_object(spec, "resources")
    names = {*nested_object(resources, "requests"), *nested_object(resources, "limits")}
    return any(map(is_pod_level_resource, names))


def _is_pod_resource_name(name: str) -> bool:
    if name.startswith((HUGE_PAGES_PREFIX, f"requests.{HUGE_PAGES_PREFIX}")):
        return True
    native = "/" not in name or "kubernetes.io/" in name
    return name.startswith("requests.") and (
        not native or name.startswith(f"requests.{_DEVICE_CLASS}")
    )


def _is_storage_class_name(name: str) -> bool:
    return name.endswith(
        (f"{_STORAGE_CLASS_SUFFIX}{CLAIMS}", f"{_STORAGE_CLASS_SUFFIX}requests.storage")
    )


def _is_extended_resource(name: str) -> bool:
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith(_DEVICE_CLASS)

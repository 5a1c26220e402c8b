"""What an object uses of a namespace's quotas, and which quotas it falls under. Pure.

Names are those of `spec.hard`: `pods`, `requests.cpu`, `count/deployments.apps`,
`gold.storageclass.storage.k8s.io/requests.storage` …
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity
from kilonova.api.times import parse_time
from kilonova.local.admission.amounts import Amounts, add, amounts, pod_amounts
from kilonova.local.kinds.pods import qos_class
from kilonova.local.kinds.walk import at, objects, part
from kilonova.local.selectors import label_selector

ONE = Quantity(10**9)
NONE = Quantity(0)

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
_ALIASES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Kinds that are also counted under their plain name."""
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
_BY_CLASS = ".storageclass.storage.k8s.io/"
_MUST_BE_SAID = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"


def count_name(resource: str) -> str:
    """Under which name the objects of a resource (`deployments.apps`) are counted."""
    return f"count/{resource}"


def resource_of(name: str) -> str:
    """The resource whose objects use what a name stands for; empty where nothing does."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in _SERVICE_NAMES:
        return SERVICES
    if name in _CLAIM_NAMES or _BY_CLASS in name:
        return CLAIMS
    if name in _ALIASES:
        return name
    return PODS if name in matching_names(PODS, [name]) else ""


def matching_names(resource: str, names: Iterable[str]) -> list[str]:
    """The names, of those given, under which objects of a resource use something."""
    if resource == PODS:
        return [name for name in names if name in _POD_NAMES or _is_of_pods(name)]
    if resource == SERVICES:
        return [name for name in names if name in _SERVICE_NAMES]
    if resource == CLAIMS:
        return [name for name in names if name in _CLAIM_NAMES or _is_of_class(name)]
    own = {count_name(resource), *([resource] if resource in _ALIASES else [])}
    return [name for name in names if name in own]


def usage(resource: str, obj: JsonObject, now: datetime | None = None) -> Amounts:
    """What one object uses. With a time, pods that should be gone by then use nothing."""
    if resource == PODS:
        return _pod_usage(obj, now)
    if resource == SERVICES:
        return _service_usage(obj)
    if resource == CLAIMS:
        return _claim_usage(obj)
    return dict.fromkeys(matching_names(resource, [count_name(resource), resource]), ONE)


def is_terminating(pod: JsonObject) -> bool:
    """In the words of scopes: whether a pod has a deadline."""
    return at(pod, "spec", "activeDeadlineSeconds") is not None


def in_scope(resource: str, obj: JsonObject, quota_spec: JsonObject) -> bool:
    """Whether a quota's scopes hold for an object."""
    wanted: list[JsonObject] = [
        {"scopeName": scope, "operator": "Exists"} for scope in quota_spec.get("scopes") or ()
    ]
    wanted += objects(quota_spec, "scopeSelector", "matchExpressions")
    return all(_holds(resource, obj, each) for each in wanted)


def unsaid(pod: JsonObject, names: Iterable[str]) -> str:
    """What a quota counts and a pod's containers do not say; empty where all is said."""
    spec = part(pod, "spec")
    if _says_for_whole(spec):
        return ""
    wanted = _MUST_BE_SAID.intersection(names)
    missing: dict[str, set[str]] = {}
    for container in (*objects(spec, "containers"), *objects(spec, "initContainers")):
        resources = part(container, "resources")
        said = _compute(amounts(part(resources, "requests")), amounts(part(resources, "limits")))
        for name in wanted - said.keys():
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _pod_usage(pod: JsonObject, now: datetime | None) -> Amounts:
    used: Amounts = {count_name(PODS): ONE}
    if part(pod, "status").get("phase") in ("Failed", "Succeeded"):
        return used
    if now is not None and _is_lost(pod, now):
        return used
    spec = part(pod, "spec")
    used[PODS] = ONE
    add(used, _compute(pod_amounts(spec, "requests"), pod_amounts(spec, "limits")))
    return used


def _is_lost(pod: JsonObject, now: datetime) -> bool:
    """A pod that should be gone by now (its node is lost, say) is not held against anybody."""
    metadata = part(pod, "metadata")
    end, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return bool(end) and grace is not None and now > parse_time(end) + timedelta(seconds=grace)


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif _is_extended(name):
            used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return used


def _service_usage(service: JsonObject) -> Amounts:
    spec = part(service, "spec")
    kind, ports = spec.get("type", ""), objects(spec, "ports")
    node_ports = 0
    if kind == "NodePort" or (kind == "LoadBalancer" and _allocates(spec)):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    return {
        count_name(SERVICES): ONE,
        SERVICES: ONE,
        "services.nodeports": Quantity(node_ports * ONE.nano),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else NONE,
    }


def _allocates(spec: JsonObject) -> bool:
    return spec.get("allocateLoadBalancerNodePorts") is not False


def _claim_usage(claim: JsonObject) -> Amounts:
    used: Amounts = {CLAIMS: ONE, count_name(CLAIMS): ONE}
    class_name = part(claim, "metadata", "annotations").get(
        "volume.beta.kubernetes.io/storage-class"
    ) or part(claim, "spec").get("storageClassName")
    asked = amounts(part(claim, "spec", "resources", "requests")).get("storage")
    if asked is not None:
        given = amounts(part(claim, "status", "allocatedResources")).get("storage", asked)
        most = max(asked, given)
        used["requests.storage"] = Quantity(most.value * ONE.nano, most.format)
    if class_name:
        used |= {
            f"{class_name}{_BY_CLASS}{name}": used[name] for name in _CLAIM_NAMES & used.keys()
        }
        used.pop(f"{class_name}{_BY_CLASS}{count_name(CLAIMS)}")
    return used


def _holds(resource: str, obj: JsonObject, wanted: JsonObject) -> bool:
    if resource != PODS:
        return False
    scope = wanted.get("scopeName")
    spec = part(obj, "spec")
    if scope in ("Terminating", "NotTerminating"):
        return is_terminating(obj) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") is (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec)
    if scope == "PriorityClass":
        name = spec.get("priorityClassName")
        if wanted.get("operator") == "Exists":
            return bool(name)
        rule = {"key": scope, "operator": wanted.get("operator"), "values": wanted.get("values")}
        return label_selector({"matchExpressions": [rule]}).matches({scope: name} if name else {})
    return False


def _crosses_namespaces(spec: JsonObject) -> bool:
    terms: list[JsonObject] = []
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = part(spec, "affinity", field)
        terms += objects(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = objects(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [part(each, "podAffinityTerm") for each in preferred]
    return any(each.get("namespaces") or "namespaceSelector" in each for each in terms)


def _says_for_whole(spec: JsonObject) -> bool:
    said = {*part(spec, "resources", "requests"), *part(spec, "resources", "limits")}
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in said)


def _is_of_pods(name: str) -> bool:
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    native = "/" not in name or "kubernetes.io/" in name
    return name.startswith("requests.") and (
        not native or name.startswith(f"requests.{_DEVICE_CLASS}")
    )


def _is_of_class(name: str) -> bool:
    return name.endswith((f"{_BY_CLASS}{CLAIMS}", f"{_BY_CLASS}requests.storage"))


def _is_extended(name: str) -> bool:
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith(_DEVICE_CLASS)

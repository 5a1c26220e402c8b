"""LimitRanger: default requests and limits of containers, and their bounds."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity
from kilonova.local.apimachinery.errors import forbidden
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import RevisionStore
from kilonova.local.quota.resource_lists import ResourceList, parse_resource_list, pod_resources

LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"
_CONTAINER_LISTS = (("container", "containers"), ("init container", "initContainers"))


class LimitRanger:
    """Enforces the LimitRanges of a namespace; a namespace without any costs a look-up."""

    def __init__(self, store: RevisionStore) -> None:
        self._store = store
        self._limit_ranges = store.collection("limitranges")

    async def mutate(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if pod is None or attributes.operation != "CREATE" or not _is_resource(attributes, "pods"):
            return
        for limits in self._find_limits(attributes):
            set_default_resources(pod, limits)

    async def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj, attributes.old
        if obj is None or not _is_limited(attributes):
            return
        if old is not None and nested_object(old, "metadata").get("deletionTimestamp"):
            return
        find = pod_violations if attributes.target.kind.plural == "pods" else claim_violations
        for limits in self._find_limits(attributes):
            problems = list(dict.fromkeys(find(obj, limits)))
            if problems:
                text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                target = attributes.target
                name = nested_object(obj, "metadata").get("name", "")
                raise forbidden(target.kind.group, target.kind.plural, name, text)

    def _find_limits(self, attributes: Attributes) -> Iterator[list[JsonObject]]:
        namespace = attributes.target.namespace
        for entry in self._limit_ranges.range_entries(namespace) if namespace else ():
            yield nested_objects(entry.decode(), "spec", "limits")


def set_default_resources(pod: JsonObject, limits: list[JsonObject]) -> None:
    """Set default requests and limits of containers, and record them in an annotation."""
    bounds = [item for item in limits if item.get("type") == "Container"]
    defaults: JsonObject = {}
    for field, source in (("requests", "defaultRequest"), ("limits", "default")):
        defaults[field] = {
            name: value for item in bounds for name, value in nested_object(item, source).items()
        }
    defaults_set: list[str] = []
    for container_type, containers in _CONTAINER_LISTS:
        for container in nested_objects(pod, "spec", containers):
            for field, field_name in (("requests", "request"), ("limits", "limit")):
                present = nested_object(container, "resources", field)
                missing = {
                    name: value for name, value in defaults[field].items() if name not in present
                }
                if missing:
                    ensure_object(ensure_object(container, "resources"), field).update(missing)
                    names = ", ".join(sorted(missing))
                    defaults_set.append(
                        f"{names} {field_name} for {container_type} {container['name']}"
                    )
    if defaults_set:
        annotations = ensure_object(pod["metadata"], "annotations")
        annotations[LIMIT_RANGER_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(defaults_set)}"


def pod_violations(pod: JsonObject, limits: list[JsonObject]) -> Iterator[str]:
    """The limits that a pod violates."""
    spec = nested_object(pod, "spec")
    for item in limits:
        if item.get("type") == "Container":
            for _, containers in _CONTAINER_LISTS:
                for container in nested_objects(spec, containers):
                    resources = nested_object(container, "resources")
                    requests_of_item = parse_resource_list(nested_object(resources, "requests"))
                    most = parse_resource_list(nested_object(resources, "limits"))
                    yield from _violations(item, requests_of_item, most)
        elif item.get("type") == "Pod":
            requests_of_item = pod_resources(spec, "requests", overhead=False)
            most = pod_resources(spec, "limits", overhead=False)
            yield from _violations(item, requests_of_item, most)


def claim_violations(claim: JsonObject, limits: list[JsonObject]) -> Iterator[str]:
    """The limits that a claim violates."""
    requests_of_item = parse_resource_list(nested_object(claim, "spec", "resources", "requests"))
    for item in limits:
        kind = item.get("type", "")
        if kind != "PersistentVolumeClaim":
            continue
        for name, bound in sorted(parse_resource_list(nested_object(item, "min")).items()):
            yield from _minimum_violations(kind, name, bound, requests_of_item, {})
        for name, bound in sorted(parse_resource_list(nested_object(item, "max")).items()):
            message = f"maximum {name} usage per {kind} is {bound}"
            if name not in requests_of_item:
                yield f"{message}.  No request is specified"
            elif requests_of_item[name] > bound:
                yield f"{message}, but request is {requests_of_item[name]}"


def _violations(item: JsonObject, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    kind = item.get("type", "")
    for name, bound in sorted(parse_resource_list(nested_object(item, "min")).items()):
        yield from _minimum_violations(kind, name, bound, requests, limits)
    for name, bound in sorted(parse_resource_list(nested_object(item, "max")).items()):
        message = f"maximum {name} usage per {kind} is {bound}"
        if name not in limits:
            yield f"{message}.  No limit is specified"
        elif limits[name] > bound:
            yield f"{message}, but limit is {limits[name]}"
        elif name in requests and requests[name] > bound:
            yield f"{message}, but request is {requests[name]}"
    for name, bound in sorted(
        parse_resource_list(nested_object(item, "maxLimitRequestRatio")).items()
    ):
        yield from _ratio_violations(kind, name, bound, requests, limits)


def _minimum_violations(
    kind: str, name: str, bound: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    message = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{message}.  No request is specified"
    elif requests[name] < bound:
        yield f"{message}, but request is {requests[name]}"
    elif name in limits and limits[name] < bound:
        yield f"{message}, but limit is {limits[name]}"


def _ratio_violations(
    kind: str, name: str, bound: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    message = f"{name} max limit to request ratio per {kind} is {bound}, but"
    if not requests.get(name):
        yield f"{message} no request is specified or request is 0"
    elif not limits.get(name):
        yield f"{message} no limit is specified or limit is 0"
    else:
        ratio = limits[name].nano / requests[name].nano
        if ratio > float(bound):
            yield f"{message} provided ratio is {ratio:f}"


def _is_resource(attributes: Attributes, plural: str) -> bool:
    target = attributes.target
    return (target.kind.group, target.kind.plural, target.subresource) == ("", plural, "")


def _is_limited(attributes: Attributes) -> bool:
    """New pods, resized ones, and claims; other fields of a pod are immutable."""
    target, operation = attributes.target, attributes.operation
    if _is_resource(attributes, "pods"):
        return operation == "CREATE"
    if (target.kind.group, target.kind.plural, target.subresource) == ("", "pods", "resize"):
        return operation == "UPDATE"
    return _is_resource(attributes, "persistentvolumeclaims") and operation in ("CREATE", "UPDATE")

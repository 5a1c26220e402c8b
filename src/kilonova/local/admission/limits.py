"""LimitRanger: defaults for what containers ask for, and bounds within which they may."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity
from kilonova.local.admission.amounts import Amounts, amounts, pod_amounts
from kilonova.local.admission.chain import Attributes
from kilonova.local.errors import forbidden
from kilonova.local.kinds.walk import inside, objects, part
from kilonova.local.storage import Store

ANNOTATION = "kubernetes.io/limit-ranger"
_CONTAINER_LISTS = (("container", "containers"), ("init container", "initContainers"))


class LimitRanger:
    """Asks the LimitRanges of a namespace; one without any costs a look-up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ranges = store.collection("limitranges")

    async def mutate(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if pod is None or attributes.operation != "CREATE" or not _is(attributes, "pods"):
            return
        for limits in self._limits(attributes):
            fill_defaults(pod, limits)

    async def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj, attributes.old
        if obj is None or not _is_bounded(attributes):
            return
        if old is not None and part(old, "metadata").get("deletionTimestamp"):
            return
        find = pod_problems if attributes.target.kind.plural == "pods" else claim_problems
        for limits in self._limits(attributes):
            problems = list(dict.fromkeys(find(obj, limits)))
            if problems:
                text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
                target = attributes.target
                name = part(obj, "metadata").get("name", "")
                raise forbidden(target.kind.group, target.kind.plural, name, text)

    def _limits(self, attributes: Attributes) -> Iterator[list[JsonObject]]:
        namespace = attributes.target.namespace
        for entry in self._ranges.between(namespace) if namespace else ():
            yield objects(entry.decode(), "spec", "limits")


def fill_defaults(pod: JsonObject, limits: list[JsonObject]) -> None:
    """Give containers what a LimitRange says they ask for when they say nothing; tell of it."""
    bounds = [item for item in limits if item.get("type") == "Container"]
    defaults: JsonObject = {}
    for field, source in (("requests", "defaultRequest"), ("limits", "default")):
        defaults[field] = {
            name: value for item in bounds for name, value in part(item, source).items()
        }
    told: list[str] = []
    for word, containers in _CONTAINER_LISTS:
        for container in objects(pod, "spec", containers):
            for field, what in (("requests", "request"), ("limits", "limit")):
                given = part(container, "resources", field)
                missing = {
                    name: value for name, value in defaults[field].items() if name not in given
                }
                if missing:
                    inside(inside(container, "resources"), field).update(missing)
                    names = ", ".join(sorted(missing))
                    told.append(f"{names} {what} for {word} {container['name']}")
    if told:
        annotations = inside(pod["metadata"], "annotations")
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"


def pod_problems(pod: JsonObject, limits: list[JsonObject]) -> Iterator[str]:
    """Why a pod is out of bounds."""
    spec = part(pod, "spec")
    for item in limits:
        if item.get("type") == "Container":
            for _, containers in _CONTAINER_LISTS:
                for container in objects(spec, containers):
                    resources = part(container, "resources")
                    asked = amounts(part(resources, "requests"))
                    most = amounts(part(resources, "limits"))
                    yield from _problems(item, asked, most)
        elif item.get("type") == "Pod":
            asked = pod_amounts(spec, "requests", overhead=False)
            most = pod_amounts(spec, "limits", overhead=False)
            yield from _problems(item, asked, most)


def claim_problems(claim: JsonObject, limits: list[JsonObject]) -> Iterator[str]:
    """Why a claim is out of bounds."""
    asked = amounts(part(claim, "spec", "resources", "requests"))
    for item in limits:
        kind = item.get("type", "")
        if kind != "PersistentVolumeClaim":
            continue
        for name, bound in sorted(amounts(part(item, "min")).items()):
            yield from _below(kind, name, bound, asked, {})
        for name, bound in sorted(amounts(part(item, "max")).items()):
            words = f"maximum {name} usage per {kind} is {bound}"
            if name not in asked:
                yield f"{words}.  No request is specified"
            elif asked[name] > bound:
                yield f"{words}, but request is {asked[name]}"


def _problems(item: JsonObject, asked: Amounts, most: Amounts) -> Iterator[str]:
    kind = item.get("type", "")
    for name, bound in sorted(amounts(part(item, "min")).items()):
        yield from _below(kind, name, bound, asked, most)
    for name, bound in sorted(amounts(part(item, "max")).items()):
        words = f"maximum {name} usage per {kind} is {bound}"
        if name not in most:
            yield f"{words}.  No limit is specified"
        elif most[name] > bound:
            yield f"{words}, but limit is {most[name]}"
        elif name in asked and asked[name] > bound:
            yield f"{words}, but request is {asked[name]}"
    for name, bound in sorted(amounts(part(item, "maxLimitRequestRatio")).items()):
        yield from _ratio(kind, name, bound, asked, most)


def _below(kind: str, name: str, bound: Quantity, asked: Amounts, most: Amounts) -> Iterator[str]:
    words = f"minimum {name} usage per {kind} is {bound}"
    if name not in asked:
        yield f"{words}.  No request is specified"
    elif asked[name] < bound:
        yield f"{words}, but request is {asked[name]}"
    elif name in most and most[name] < bound:
        yield f"{words}, but limit is {most[name]}"


def _ratio(kind: str, name: str, bound: Quantity, asked: Amounts, most: Amounts) -> Iterator[str]:
    words = f"{name} max limit to request ratio per {kind} is {bound}, but"
    if not asked.get(name):
        yield f"{words} no request is specified or request is 0"
    elif not most.get(name):
        yield f"{words} no limit is specified or limit is 0"
    else:
        ratio = most[name].nano / asked[name].nano
        if ratio > float(bound):
            yield f"{words} provided ratio is {ratio:f}"


def _is(attributes: Attributes, plural: str) -> bool:
    target = attributes.target
    return (target.kind.group, target.kind.plural, target.subresource) == ("", plural, "")


def _is_bounded(attributes: Attributes) -> bool:
    """New pods, resized ones, and claims; what else a pod is, it stays."""
    target, operation = attributes.target, attributes.operation
    if _is(attributes, "pods"):
        return operation == "CREATE"
    if (target.kind.group, target.kind.plural, target.subresource) == ("", "pods", "resize"):
        return operation == "UPDATE"
    return _is(attributes, "persistentvolumeclaims") and operation in ("CREATE", "UPDATE")

"""ResourceQuota: rejects objects that would exceed a quota of the namespace.

Check and charge are one step without an await in between, and the object itself is written right
after: of any number of concurrent creates, only as many pass as the quota allows. A charge for an
object that was then rejected is corrected by the controller, which recounts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity
from kilonova.local.apimachinery.errors import ApiError, forbidden
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.registry.encoding import encode_entry
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.apiserver.storage import Entry, PutEntry, RevisionStore, UpdateFunction
from kilonova.local.quota.evaluators import (
    CLAIMS,
    PODS,
    SERVICES,
    has_deadline,
    matches_scopes,
    matching_names,
    missing_resources,
    object_usage,
)
from kilonova.local.quota.resource_lists import ResourceList, format_resources, parse_resource_list

_RESOURCE = "resourcequotas"
_UNCOUNTED_RESOURCES = frozenset({"events", "events.events.k8s.io", "bindings"})
_VIRTUAL_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_UPDATABLE_RESOURCES = (SERVICES, CLAIMS)
"""Kinds whose usage may increase with an update."""


@dataclass(frozen=True, slots=True)
class _QuotaCharge:
    """What an object charges to one quota."""

    key: str
    used: ResourceList


class ResourceQuotaPlugin:
    """Enforces the quotas of a namespace; a namespace without any costs a look-up."""

    def __init__(self, store: RevisionStore, served_kinds: ServedKinds) -> None:
        kind = served_kinds.find("", "v1", _RESOURCE)
        assert kind is not None
        self._store = store
        self._kind = kind
        self._quotas = store.collection(_RESOURCE)

    async def validate(self, attributes: Attributes) -> None:
        namespace = attributes.target.namespace
        if not namespace or attributes.obj is None or not _is_counted(attributes):
            return
        taken = [
            each
            for entry in self._quotas_in(namespace)
            if (each := self._charge_for(attributes, entry)) is not None
        ]
        if taken and not attributes.dry_run:
            self._store.propose(_RESOURCE, [(each.key, self._charge(each.used)) for each in taken])

    def _quotas_in(self, namespace: str) -> Iterator[Entry]:
        for entry in self._quotas.range_entries(namespace):
            newest = self._store.newest_entry(self._quotas, entry.key)
            if newest is not None:
                yield newest

    def _charge_for(self, attributes: Attributes, entry: Entry) -> _QuotaCharge | None:
        """What a write charges to a quota; None if nothing, an error if it exceeds the quota."""
        obj, old, quota = attributes.obj, attributes.old, entry.decode()
        assert obj is not None
        resource = _qualified_resource(attributes)
        hard = parse_resource_list(nested_object(quota, "status", "hard"))
        names = matching_names(resource, hard)
        spec = nested_object(quota, "spec")
        if not names or not matches_scopes(resource, obj, spec):
            return None
        name = quota["metadata"]["name"]
        if resource == PODS and (missing := missing_resources(obj, names)):
            raise _forbidden(attributes, f"failed quota: {name}: must specify {missing}")
        used = parse_resource_list(nested_object(quota, "status", "used"))
        if any(each not in used for each in names):
            unknown = ",".join(sorted(names))
            raise _forbidden(attributes, f"status unknown for quota: {name}, resources: {unknown}")
        requested = self._requested_usage(attributes, resource, obj)
        if old is not None and matches_scopes(resource, old, spec):
            requested = _usage_increase(requested, object_usage(resource, old))
        delta = {each: requested[each] for each in names if requested.get(each)}
        if not delta:
            return None
        total = {each: used[each] + delta[each] for each in delta}
        exceeded = [each for each in delta if total[each] > hard[each]]
        if exceeded:
            raise _forbidden(
                attributes,
                f"exceeded quota: {name}, requested: {format_resources(exceeded, delta)}, "
                f"used: {format_resources(exceeded, used)}, "
                f"limited: {format_resources(exceeded, hard)}",
            )
        return _QuotaCharge(entry.key, delta)

    def _requested_usage(
        self, attributes: Attributes, resource: str, obj: JsonObject
    ) -> ResourceList:
        requested = object_usage(resource, obj)
        negative = [name for name, amount in requested.items() if amount.nano < 0]
        if negative:
            listing = ",".join(sorted(negative))
            raise _forbidden(attributes, f"quota usage is negative for resource(s): {listing}")
        return requested

    def _charge(self, delta: ResourceList) -> UpdateFunction:
        def add_usage(current: Entry | None, rv: int) -> PutEntry | None:
            if current is None:
                return None
            quota = current.decode()
            used: JsonObject = quota["status"]["used"]
            previous = parse_resource_list(used)
            used.update({name: str(previous[name] + amount) for name, amount in delta.items()})
            return PutEntry(encode_entry(self._kind, current.key, rv, quota))

        return add_usage


def _qualified_resource(attributes: Attributes) -> str:
    kind = attributes.target.kind
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _is_counted(attributes: Attributes) -> bool:
    """Whether a write may change the usage."""
    target, operation, resource = (
        attributes.target,
        attributes.operation,
        _qualified_resource(attributes),
    )
    if resource in _UNCOUNTED_RESOURCES or target.kind.group in _VIRTUAL_GROUPS:
        return False
    if resource == PODS and operation == "UPDATE":
        if target.subresource:
            return target.subresource == "resize"
        return has_deadline(attributes.obj or {}) is not has_deadline(attributes.old or {})
    if target.subresource:
        return False
    return operation == "CREATE" or (operation == "UPDATE" and resource in _UPDATABLE_RESOURCES)


def _usage_increase(requested: ResourceList, previous: ResourceList) -> ResourceList:
    """The increase of one usage over another; never negative."""
    return {
        name: Quantity(max(0, amount.nano - previous[name].nano), amount.format)
        if name in previous
        else amount
        for name, amount in requested.items()
    }


def _forbidden(attributes: Attributes, message: str) -> ApiError:
    kind = attributes.target.kind
    name = nested_object(attributes.obj or {}, "metadata").get("name", "")
    return forbidden(kind.group, kind.plural, name, message)

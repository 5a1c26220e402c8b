"""ResourceQuota: nothing is created that a namespace has no quota left for.

Looking and taking are one step without a wait in between, and the object itself is written right
after: of any number of creates at once, as many pass as there is room for. What was taken for an
object that was then refused is given back by the controller, which counts what is there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity
from kilonova.local.admission.amounts import Amounts, amounts, listed
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    in_scope,
    is_terminating,
    matching_names,
    unsaid,
    usage,
)
from kilonova.local.catalog import Catalog
from kilonova.local.errors import ApiError, forbidden
from kilonova.local.kinds.walk import part
from kilonova.local.registry.objects import make_entry
from kilonova.local.storage import Decide, Entry, Put, Store

_RESOURCE = "resourcequotas"
_NEVER = frozenset({"events", "events.events.k8s.io", "bindings"})
_VIRTUAL_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_REPLACED_TOO = (SERVICES, CLAIMS)
"""Kinds that may use more after a change than before."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What an object takes from one quota."""

    key: str
    used: Amounts


class ResourceQuotas:
    """Asks the quotas of a namespace; one without any costs a look-up."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        kind = catalog.find("", "v1", _RESOURCE)
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
            for entry in self._of(namespace)
            if (each := self._taken(attributes, entry)) is not None
        ]
        if taken and not attributes.dry_run:
            self._store.propose(
                _RESOURCE, [(each.key, self._charging(each.used)) for each in taken]
            )

    def _of(self, namespace: str) -> Iterator[Entry]:
        for entry in self._quotas.between(namespace):
            newest = self._store.newest(self._quotas, entry.key)
            if newest is not None:
                yield newest

    def _taken(self, attributes: Attributes, entry: Entry) -> _Taken | None:
        """What a write takes from a quota; None where nothing, and an error where too much."""
        obj, old, quota = attributes.obj, attributes.old, entry.decode()
        assert obj is not None
        resource = _resource(attributes)
        hard = amounts(part(quota, "status", "hard"))
        names = matching_names(resource, hard)
        spec = part(quota, "spec")
        if not names or not in_scope(resource, obj, spec):
            return None
        name = quota["metadata"]["name"]
        if resource == PODS and (missing := unsaid(obj, names)):
            raise _refused(attributes, f"failed quota: {name}: must specify {missing}")
        used = amounts(part(quota, "status", "used"))
        if any(each not in used for each in names):
            unknown = ",".join(sorted(names))
            raise _refused(attributes, f"status unknown for quota: {name}, resources: {unknown}")
        wanted = self._wanted(attributes, resource, obj)
        if old is not None and in_scope(resource, old, spec):
            wanted = _more(wanted, usage(resource, old))
        delta = {each: wanted[each] for each in names if wanted.get(each)}
        if not delta:
            return None
        after = {each: used[each] + delta[each] for each in delta}
        exceeded = [each for each in delta if after[each] > hard[each]]
        if exceeded:
            raise _refused(
                attributes,
                f"exceeded quota: {name}, requested: {listed(exceeded, delta)}, "
                f"used: {listed(exceeded, used)}, limited: {listed(exceeded, hard)}",
            )
        return _Taken(entry.key, delta)

    def _wanted(self, attributes: Attributes, resource: str, obj: JsonObject) -> Amounts:
        wanted = usage(resource, obj)
        negative = [name for name, amount in wanted.items() if amount.nano < 0]
        if negative:
            listing = ",".join(sorted(negative))
            raise _refused(attributes, f"quota usage is negative for resource(s): {listing}")
        return wanted

    def _charging(self, delta: Amounts) -> Decide:
        def decide(current: Entry | None, rv: int) -> Put | None:
            if current is None:
                return None
            quota = current.decode()
            used: JsonObject = quota["status"]["used"]
            before = amounts(used)
            used.update({name: str(before[name] + amount) for name, amount in delta.items()})
            return Put(make_entry(self._kind, current.key, rv, quota))

        return decide


def _resource(attributes: Attributes) -> str:
    kind = attributes.target.kind
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _is_counted(attributes: Attributes) -> bool:
    """Whether a write may change what is used."""
    target, operation, resource = attributes.target, attributes.operation, _resource(attributes)
    if resource in _NEVER or target.kind.group in _VIRTUAL_GROUPS:
        return False
    if resource == PODS and operation == "UPDATE":
        if target.subresource:
            return target.subresource == "resize"
        return is_terminating(attributes.obj or {}) is not is_terminating(attributes.old or {})
    if target.subresource:
        return False
    return operation == "CREATE" or (operation == "UPDATE" and resource in _REPLACED_TOO)


def _more(wanted: Amounts, before: Amounts) -> Amounts:
    """By how much one use is above another; never less than nothing."""
    return {
        name: Quantity(max(0, amount.nano - before[name].nano), amount.format)
        if name in before
        else amount
        for name, amount in wanted.items()
    }


def _refused(attributes: Attributes, detail: str) -> ApiError:
    kind = attributes.target.kind
    name = part(attributes.obj or {}, "metadata").get("name", "")
    return forbidden(kind.group, kind.plural, name, detail)

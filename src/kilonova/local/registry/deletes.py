"""Deleting: at once where nothing stands in the way, else marked until nothing does."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube.transport import Request
from kilonova.local.admission import Attributes
from kilonova.local.catalog import storage_resource
from kilonova.local.errors import ApiError, bad_request, invalid, invalid_value, not_supported
from kilonova.local.kinds.base import Behavior, Kind
from kilonova.local.negotiation import decode_body
from kilonova.local.registry import lifecycle
from kilonova.local.registry.core import Registry, absent
from kilonova.local.registry.objects import make_entry, shown
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.reads import Page, read_list
from kilonova.local.registry.writes import Outcome
from kilonova.local.routes import Target
from kilonova.local.storage import Entry, Put, Remove

_POLICIES = ("Foreground", "Background", "Orphan")


class _Body(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: dict[str, Any] | None = None
    dry_run: list[str] | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    propagation: str | None = None
    preconditions: JsonObject = field(default_factory=dict[str, Any])

    def described(self, options: WriteOptions) -> JsonObject:
        """As an object, for those who are asked before the delete."""
        told: JsonObject = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if options.dry_run:
            told["dryRun"] = ["All"]
        asked = {
            "gracePeriodSeconds": self.grace,
            "preconditions": self.preconditions or None,
            "propagationPolicy": self.propagation,
        }
        return told | {name: value for name, value in asked.items() if value is not None}


def delete_options(request: Request, options: WriteOptions) -> DeleteOptions:
    """The options of a delete, from its body or, where there is none, from the query."""
    body = _Body()
    if request.body:
        try:
            decoded = decode_body(request.body, request.headers.get("content-type", ""))
            body = msgspec.convert(decoded, _Body)
        except msgspec.ValidationError as error:
            raise bad_request(f"DeleteOptions could not be read: {error}") from error
        if body.kind not in ("", "DeleteOptions"):
            raise bad_request(
                f'no kind "{body.kind}" is registered for version "{body.api_version}" '
                'in scheme "pkg/runtime/scheme.go:111"'
            )
    if body.dry_run:
        if body.dry_run != ["All"]:
            problem = not_supported("dryRun", body.dry_run, ["All"])
            raise invalid("meta.k8s.io", "DeleteOptions", "", [problem])
        options.dry_run = True
    grace = body.grace_period_seconds
    if grace is None and (text := request.param("gracePeriodSeconds")):
        try:
            grace = int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    propagation = body.propagation_policy or request.param("propagationPolicy")
    orphan = body.orphan_dependents
    if orphan is not None:
        if propagation:
            problem = invalid_value(
                "propagationPolicy",
                propagation,
                "orphanDependents and deletionPropagation cannot be both set",
            )
            raise invalid("meta.k8s.io", "DeleteOptions", "", [problem])
        propagation = "Orphan" if orphan else "Background"
    if propagation and propagation not in _POLICIES:
        problem = not_supported("propagationPolicy", propagation, [*_POLICIES, "nil"])
        raise invalid("meta.k8s.io", "DeleteOptions", "", [problem])
    if grace is not None and grace < 0:
        grace = 1
    return DeleteOptions(grace, propagation, body.preconditions or {})


async def delete(
    registry: Registry,
    target: Target,
    wanted: DeleteOptions,
    options: WriteOptions,
    *,
    admitted: bool = False,
    asked: Target | None = None,
) -> Outcome:
    """Delete one object, or mark it for deletion.

    `admitted`: nobody need be asked any more; `asked`: what the request was about, if not this
    object alone.
    """
    kind = target.kind
    stored_kind = registry.catalog.storing(kind)
    while True:
        base = registry.newest(target)
        if base is None:
            raise absent(target)
        obj = shown(stored_kind, base)
        lifecycle.check_delete_preconditions(
            kind, target.name, wanted.preconditions, obj["metadata"]
        )
        if admitted:
            break
        attributes = Attributes(
            "DELETE",
            asked or target,
            options.user,
            None,
            obj,
            options.dry_run,
            options.warnings,
            partial(wanted.described, options),
        )
        await registry.admission.mutate(attributes)
        await registry.admission.validate(attributes)
        if registry.newest(target) is base:
            break
    gone, marked = _ending(registry, stored_kind, obj, wanted)

    def decide(current: Entry | None, rv: int) -> Put | Remove:
        if current is not base:
            raise AssertionError("nothing has been waited for")
        entry = make_entry(stored_kind, base.key, rv, obj)
        return Remove(entry) if gone else Put(entry)

    if not gone and not marked:
        return Outcome(base)
    if options.dry_run:
        return Outcome(decide(base, base.rv).entry, removed=gone)
    if gone and marked and stored_kind.behavior.is_graceful:
        return await _mark_and_remove(registry, target, base, obj)
    entry = await registry.store.write(storage_resource(kind), base.key, decide)
    assert entry is not None
    return Outcome(entry, removed=gone)


async def _mark_and_remove(
    registry: Registry, target: Target, base: Entry, obj: JsonObject
) -> Outcome:
    """Watches see the mark before the end; on disk there are both or neither."""
    kind, resource = registry.catalog.storing(target.kind), storage_resource(target.kind)

    def mark(current: Entry | None, rv: int) -> Put:
        if current is not base:
            raise AssertionError("nothing has been waited for")
        return Put(make_entry(kind, base.key, rv, obj))

    def remove(current: Entry | None, rv: int) -> Remove:
        assert current is not None
        return Remove(make_entry(kind, base.key, rv, current.decode()))

    entry = await registry.store.write(resource, base.key, mark, remove)
    assert entry is not None
    return Outcome(entry, removed=True)


async def delete_collection(
    registry: Registry,
    target: Target,
    request: Request,
    wanted: DeleteOptions,
    options: WriteOptions,
) -> Page:
    """Delete everything that a list with the same selectors shows. Gives the objects deleted."""
    deleted: list[Entry] = []
    page = read_list(registry, target, request)
    for entry in page.entries:
        namespace, _, name = entry.key.rpartition("/")
        one = Target(target.kind, namespace, name, "")
        try:
            await delete(registry, one, wanted, options, asked=target)
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        deleted.append(entry)
    return Page(deleted, page.rv, page.continue_token, page.remaining)


def _ending(
    registry: Registry, kind: Kind, obj: JsonObject, wanted: DeleteOptions
) -> tuple[bool, bool]:
    """Whether the object goes now, and whether it changed: it is marked where it must wait."""
    metadata = obj["metadata"]
    behavior = kind.behavior
    now = registry.clock.now()
    if not metadata.get("deletionTimestamp"):
        behavior.prepare_delete(obj, rfc3339(now))
    before = list(metadata.get("finalizers") or [])
    finalizers = _finalizers(behavior, before, wanted.propagation)
    changed = finalizers != before
    if changed:
        metadata["finalizers"] = finalizers
    if metadata.get("deletionTimestamp"):
        if wanted.grace is not None and metadata.get("deletionGracePeriodSeconds"):
            changed |= lifecycle.shorten_grace(metadata, now, wanted.grace)
        return lifecycle.ready_to_go(metadata) and behavior.may_go(obj), changed
    grace = behavior.grace_seconds(obj, wanted.grace)
    gone = not grace and not finalizers and behavior.may_go(obj)
    if not gone or behavior.is_graceful:
        lifecycle.mark_deleted(metadata, now, grace)
    if not behavior.tells_grace:
        metadata.pop("deletionGracePeriodSeconds", None)
    return gone, True


def _finalizers(behavior: Behavior, present: list[str], propagation: str | None) -> list[str]:
    """The finalizers that make the garbage collector do what the policy says."""
    if propagation is None:
        ours = {lifecycle.FOREGROUND, lifecycle.ORPHAN}
        if behavior.orphans_by_default and ours.isdisjoint(present):
            return [*present, lifecycle.ORPHAN]
        return present
    kept = [name for name in present if name not in (lifecycle.FOREGROUND, lifecycle.ORPHAN)]
    if propagation == "Foreground":
        kept.append(lifecycle.FOREGROUND)
    elif propagation == "Orphan":
        kept.append(lifecycle.ORPHAN)
    return kept

"""Minimal patches that bring an object to its desired state. Pure."""

from typing import Any, cast

import msgspec

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube.client.merge_patch import minimal_merge_patch
from kilonova.workloads.builders.propagated_metadata import with_removed_keys
from kilonova.workloads.resources import ChildObject

_MANAGED_METADATA_FIELDS = ("labels", "annotations", "finalizers", "ownerReferences")
_REVISION_LABELS = (names.GENERATION_HASH, names.POD_TEMPLATE_HASH)
_EMPTY_VALUES: tuple[object, ...] = (None, "", [], ())


def build_child_patch(
    live: ChildObject, wanted: JsonObject, *, spec_is_immutable: bool = False
) -> JsonObject | None:
    """The patch of an object of which the API server and others own fields too.

    An object controlled by another object of the set is handed over: it can have one controller.
    """
    desired = _select_managed_metadata(cast("JsonObject", wanted["metadata"]))
    owners, controller = wanted["metadata"]["ownerReferences"], live.metadata.controller
    if controller is not None and all(each["uid"] != controller.uid for each in owners):
        others = [_to_json(each) for each in live.metadata.owner_references if not each.controller]
        version = {"resourceVersion": live.metadata.resource_version}
        return {"metadata": {**version, "ownerReferences": [*others, *owners]}}
    if not spec_is_immutable:
        spec = cast("JsonObject", wanted["spec"])
        selector = spec.get("selector")
        if selector is not None:
            # An added selector key would exclude pods.
            added: JsonObject = live.spec.get("selector") or {}
            spec = {**spec, "selector": {**dict.fromkeys(added), **selector}}
        desired["spec"] = spec
    return minimal_merge_patch(_to_json(live), desired)


def build_owned_patch(
    live: PodClique | PodCliqueScalingGroup | PodGang,
    wanted: JsonObject,
    *,
    foreign_fields: tuple[str, ...] = (),
) -> JsonObject | None:
    """The patch of an object whose spec the operator owns, except `foreign_fields`."""
    patch = build_metadata_patch(live.metadata, wanted) or {}
    present = _to_json(live.spec)
    spec = build_exact_patch(
        {name: value for name, value in present.items() if name not in foreign_fields},
        {name: value for name, value in wanted["spec"].items() if name not in foreign_fields},
    )
    return {**patch, "spec": spec} if spec else patch or None


def build_metadata_patch(live: Metadata, wanted: JsonObject) -> JsonObject | None:
    """The patch of an object's metadata; other labels and annotations are kept."""
    metadata = with_removed_keys(live, cast("JsonObject", wanted["metadata"]))
    if _is_metadata_current(live, metadata):
        return None
    present = {"metadata": _to_json(live)}
    return minimal_merge_patch(present, _select_managed_metadata(metadata))


def build_label_repair_patch(live: Metadata, wanted: JsonObject) -> JsonObject | None:
    """The patch of an object that has lost its labels; None if another owns it or it is being
    deleted.

    Revision labels are kept: they change only together with the spec.
    """
    controller = live.controller
    owners = {each["uid"] for each in wanted["metadata"]["ownerReferences"]}
    if controller is None or controller.uid not in owners or live.deletion_timestamp is not None:
        return None
    labels = {
        name: value
        for name, value in wanted["metadata"]["labels"].items()
        if name not in _REVISION_LABELS or name not in live.labels
    }
    return {"metadata": {"labels": labels}}


def build_exact_patch(live: JsonObject, wanted: JsonObject) -> JsonObject:
    """The merge patch that removes from `live` everything that is not in `wanted`.

    Empty fields count as absent: typed objects encode them.
    """
    result: JsonObject = {
        name: None
        for name, value in live.items()
        if name not in wanted and value not in _EMPTY_VALUES
    }
    for name, value in wanted.items():
        present = live.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            change = build_exact_patch(cast("JsonObject", present), cast("JsonObject", value))
            if change:
                result[name] = change
        elif not _is_equivalent(present, value) and not (
            present is None and value in _EMPTY_VALUES
        ):
            result[name] = value
    return result


def _is_equivalent(live: Any, wanted: Any) -> bool:
    """Equal, except nulls in objects; `wanted` may contain tuples."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        one, other = cast("JsonObject", live), cast("JsonObject", wanted)
        return all(
            _is_equivalent(one.get(name), other.get(name)) for name in one.keys() | other.keys()
        )
    if isinstance(live, list) and isinstance(wanted, (list, tuple)):
        present, desired = cast("list[Any]", live), cast("list[Any]", wanted)
        return len(present) == len(desired) and all(map(_is_equivalent, present, desired))
    return live == wanted


def _is_metadata_current(live: Metadata, wanted: JsonObject) -> bool:
    """Whether there is nothing to write, as is usual; ten times as fast as building the patch."""
    for had, has in ((live.labels, "labels"), (live.annotations, "annotations")):
        for name, value in wanted.get(has, {}).items():
            if had.get(name) != value:
                return False
    owners = {each.uid for each in live.owner_references if each.controller}
    return all(each in live.finalizers for each in wanted.get("finalizers", ())) and all(
        each["uid"] in owners for each in wanted.get("ownerReferences", ())
    )


def _select_managed_metadata(metadata: JsonObject) -> JsonObject:
    return {
        "metadata": {name: metadata[name] for name in _MANAGED_METADATA_FIELDS if name in metadata}
    }


def _to_json(struct: msgspec.Struct) -> JsonObject:
    """The JSON as the server sent it: with lists where the Structs have tuples."""
    return msgspec.json.decode(msgspec.json.encode(struct), type=dict[str, Any])

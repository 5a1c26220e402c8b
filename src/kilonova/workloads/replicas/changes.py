"""The least to write so that an object is as it should be. Pure."""

from typing import Any, cast

import msgspec

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube.apply import narrowest_patch
from kilonova.workloads.resources import Child
from kilonova.workloads.templates.marks import taken_back

_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_OF_A_REVISION = (names.GENERATION_HASH, names.POD_TEMPLATE_HASH)
_NOTHING: tuple[object, ...] = (None, "", [], ())


def child_patch(
    live: Child, wanted: JsonObject, *, spec_is_fixed: bool = False
) -> JsonObject | None:
    """What to write to an object of which the server and others hold parts too.

    One that another object of the set controlled is handed over: an object has one controller.
    """
    desired = _kept_metadata(cast("JsonObject", wanted["metadata"]))
    owners, controller = wanted["metadata"]["ownerReferences"], live.metadata.controller
    if controller is not None and all(each["uid"] != controller.uid for each in owners):
        left = [_plain(each) for each in live.metadata.owner_references if not each.controller]
        version = {"resourceVersion": live.metadata.resource_version}
        return {"metadata": {**version, "ownerReferences": [*left, *owners]}}
    if not spec_is_fixed:
        spec = cast("JsonObject", wanted["spec"])
        selector = spec.get("selector")
        if selector is not None:
            # Whoever adds to a selector takes pods away from it.
            more: JsonObject = live.spec.get("selector") or {}
            spec = {**spec, "selector": {**dict.fromkeys(more), **selector}}
        desired["spec"] = spec
    return narrowest_patch(_plain(live), desired)


def own_patch(
    live: PodClique | PodCliqueScalingGroup | PodGang,
    wanted: JsonObject,
    *,
    others: tuple[str, ...] = (),
) -> JsonObject | None:
    """What to write to an object whose spec is all ours, but for the fields of others."""
    patch = metadata_patch(live.metadata, wanted) or {}
    present = _plain(live.spec)
    spec = exact_change(
        {name: value for name, value in present.items() if name not in others},
        {name: value for name, value in wanted["spec"].items() if name not in others},
    )
    return {**patch, "spec": spec} if spec else patch or None


def metadata_patch(live: Metadata, wanted: JsonObject) -> JsonObject | None:
    """What to write to an object's metadata; labels and annotations of others stay."""
    metadata = taken_back(live, cast("JsonObject", wanted["metadata"]))
    if _metadata_holds(live, metadata):
        return None
    present = {"metadata": _plain(live)}
    return narrowest_patch(present, _kept_metadata(metadata))


def lost_labels(live: Metadata, wanted: JsonObject) -> JsonObject | None:
    """What to write to an object that has lost its labels; None if it is another's, or is going.

    Which revision it is at stays as it says: that changes only together with its spec.
    """
    controller = live.controller
    owners = {each["uid"] for each in wanted["metadata"]["ownerReferences"]}
    if controller is None or controller.uid not in owners or live.deletion_timestamp is not None:
        return None
    labels = {
        name: value
        for name, value in wanted["metadata"]["labels"].items()
        if name not in _OF_A_REVISION or name not in live.labels
    }
    return {"metadata": {"labels": labels}}


def exact_change(live: JsonObject, wanted: JsonObject) -> JsonObject:
    """The merge patch that leaves nothing in `live` but what is wanted.

    A field that says nothing is as good as none: types write it for what is not there.
    """
    result: JsonObject = {
        name: None for name, value in live.items() if name not in wanted and value not in _NOTHING
    }
    for name, value in wanted.items():
        present = live.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            change = exact_change(cast("JsonObject", present), cast("JsonObject", value))
            if change:
                result[name] = change
        elif not _same(present, value) and not (present is None and value in _NOTHING):
            result[name] = value
    return result


def _same(live: Any, wanted: Any) -> bool:
    """Equal, but for nulls in objects; what is wanted may come from a type, with tuples."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        one, other = cast("JsonObject", live), cast("JsonObject", wanted)
        return all(_same(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(live, list) and isinstance(wanted, (list, tuple)):
        present, desired = cast("list[Any]", live), cast("list[Any]", wanted)
        return len(present) == len(desired) and all(map(_same, present, desired))
    return live == wanted


def _metadata_holds(live: Metadata, wanted: JsonObject) -> bool:
    """Whether there is nothing to write, as nearly always: told in a tenth of the time."""
    for had, has in ((live.labels, "labels"), (live.annotations, "annotations")):
        for name, value in wanted.get(has, {}).items():
            if had.get(name) != value:
                return False
    owners = {each.uid for each in live.owner_references if each.controller}
    return all(each in live.finalizers for each in wanted.get("finalizers", ())) and all(
        each["uid"] in owners for each in wanted.get("ownerReferences", ())
    )


def _kept_metadata(metadata: JsonObject) -> JsonObject:
    return {"metadata": {name: metadata[name] for name in _METADATA if name in metadata}}


def _plain(struct: msgspec.Struct) -> JsonObject:
    """As the server sent it: with lists, where the types have tuples."""
    return msgspec.json.decode(msgspec.json.encode(struct), type=dict[str, Any])

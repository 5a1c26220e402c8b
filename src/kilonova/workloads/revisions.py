"""Revisions: snapshots of a set's templates, stored as ControllerRevisions. Pure.

A revision holds the pod templates exactly as in the set, and the hashes that were computed for the
whole and for each clique. Templates are compared, not hashes: an operator version with another hash
function still finds the revision of a set and keeps using the recorded hashes, so that an operator
upgrade replaces no pods.
"""

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.kube.controllers.controller_revisions import ControllerRevision
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.resources import SETS

_HASH_LENGTH = 10
_REVISION_HISTORY_LIMIT = 10


@dataclass(frozen=True, slots=True)
class CliquePodTemplate:
    """The pod template of a clique."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_spec: JsonObject


@dataclass(frozen=True, slots=True)
class SetRevision:
    """A snapshot of a set's templates."""

    name: str
    """The name of the ControllerRevision."""
    hash: str
    number: int
    """The newest revision has the greatest number."""
    templates: Mapping[str, CliquePodTemplate]
    """By the clique's name in the set."""
    priority_class_name: str
    hashes: Mapping[str, str]
    """The hash of each clique's template by its name in the set; pods carry it as a label."""


def resolve_current_revision(
    set_: PodCliqueSet, known: Sequence[ControllerRevision]
) -> SetRevision:
    """The revision of a set as it is now: a stored one, made the newest, or a new one.

    A set that is rolled back finds the old revision, which then gets a new number. In a new
    revision, unchanged cliques keep their hashes.
    """
    fresh = _build_revision(set_, max((each.revision for each in known), default=0) + 1)
    recorded = sorted(map(decode_revision, known), key=lambda each: each.number)
    for each in reversed(recorded):
        if _has_same_templates(each, fresh):
            newest = each.number == fresh.number - 1
            return each if newest else replace(each, number=fresh.number)
    hashes = dict(fresh.hashes)
    for each in recorded:
        hashes |= {
            name: each.hashes[name] for name in hashes if _has_same_clique(each, fresh, name)
        }
    return replace(fresh, hashes=hashes)


def build_controller_revision(set_: PodCliqueSet, revision: SetRevision) -> JsonObject:
    """The ControllerRevision object of a revision."""
    data = _RevisionData(
        cliques=tuple(_encode_clique(name, parts) for name, parts in revision.templates.items()),
        hashes=dict(revision.hashes),
        priority_class_name=revision.priority_class_name,
    )
    return {
        "metadata": {
            "name": revision.name,
            "namespace": set_.metadata.namespace,
            "labels": {
                names.MANAGED_BY: names.OPERATOR,
                names.PART_OF: set_.metadata.name,
                names.GENERATION_HASH: revision.hash,
            },
            "ownerReferences": [build_owner_reference(SETS, set_.metadata)],
        },
        "revision": revision.number,
        "data": msgspec.to_builtins(data),
    }


def decode_revision(revision: ControllerRevision) -> SetRevision:
    """Decode a ControllerRevision."""
    data = msgspec.convert(revision.data, _RevisionData)
    return SetRevision(
        name=revision.metadata.name,
        hash=revision.metadata.labels.get(names.GENERATION_HASH, ""),
        number=revision.revision,
        templates={
            each.name: CliquePodTemplate(each.labels, each.annotations, each.pod_spec)
            for each in data.cliques
        },
        priority_class_name=data.priority_class_name,
        hashes=data.hashes,
    )


def select_revisions_to_delete(
    known: Sequence[ControllerRevision], used_hashes: Container[str]
) -> list[ControllerRevision]:
    """The revisions beyond the history limit whose hash is not in use."""
    newest_first = sorted(known, key=lambda each: each.revision, reverse=True)
    return [
        each
        for each in newest_first[_REVISION_HISTORY_LIMIT:]
        if each.metadata.labels.get(names.GENERATION_HASH, "") not in used_hashes
    ]


class _CliqueData(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    pod_spec: dict[str, Any]


class _RevisionData(msgspec.Struct, frozen=True, rename="camel"):
    cliques: tuple[_CliqueData, ...]
    hashes: dict[str, str]
    priority_class_name: str = ""


def _build_revision(set_: PodCliqueSet, number: int) -> SetRevision:
    template = set_.spec.template
    priority = template.priority_class_name
    cliques = {
        each.name: CliquePodTemplate(each.labels, each.annotations, each.spec.pod_spec)
        for each in template.cliques
    }
    encoded = {name: _encode_clique(name, parts) for name, parts in cliques.items()}
    set_hash = _hash_value([*(encoded[name] for name in sorted(encoded)), priority])
    return SetRevision(
        name=names.revision(set_.metadata.name, set_hash),
        hash=set_hash,
        number=number,
        templates=cliques,
        priority_class_name=priority,
        hashes={name: _hash_value([each, priority]) for name, each in encoded.items()},
    )


def _has_same_templates(one: SetRevision, other: SetRevision) -> bool:
    return one.priority_class_name == other.priority_class_name and one.templates == other.templates


def _has_same_clique(one: SetRevision, other: SetRevision, clique: str) -> bool:
    return (
        clique in one.hashes
        and one.priority_class_name == other.priority_class_name
        and one.templates.get(clique) == other.templates.get(clique)
    )


def _encode_clique(name: str, parts: CliquePodTemplate) -> _CliqueData:
    return _CliqueData(name, dict(parts.labels), dict(parts.annotations), parts.pod_spec)


def _hash_value(value: object) -> str:
    canonical = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_HASH_LENGTH]

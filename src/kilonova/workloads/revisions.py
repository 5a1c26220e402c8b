"""Revisions: the templates of a set as they are or once were, kept as ControllerRevisions. Pure.

A revision holds what pods are made from, exactly as the set has it, and the hashes that the
operator of its day gave to the whole and to each clique. Templates are compared, not hashes: an
operator that hashes otherwise still finds the revision that a set is at, and goes on with the
hashes recorded there, so that an upgrade replaces nothing.
"""

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.resources import SETS, Revision
from kilonova.workloads.templates.labels import owner_reference

_HASH_LENGTH = 10
_KEPT = 10


@dataclass(frozen=True, slots=True)
class CliqueParts:
    """What the pods of a clique are made from."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_spec: JsonObject


@dataclass(frozen=True, slots=True)
class SetRevision:
    """The templates of a set at some time."""

    name: str
    """Of the ControllerRevision."""
    hash: str
    number: int
    """The newest has the greatest."""
    templates: Mapping[str, CliqueParts]
    """By the clique's name in the set."""
    priority_class_name: str
    hashes: Mapping[str, str]
    """Of each clique's template, by its name: what pods carry."""


def current_revision(set_: PodCliqueSet, known: Sequence[Revision]) -> SetRevision:
    """The revision of a set as it is now: one that is known, newest of all, or a new one.

    A set that goes back to what it was finds the old revision, which then gets a new number. In a
    new one, cliques that are as they were keep their hashes.
    """
    fresh = _of_templates(set_, max((each.revision for each in known), default=0) + 1)
    recorded = sorted(map(read_revision, known), key=lambda each: each.number)
    for each in reversed(recorded):
        if _same_templates(each, fresh):
            newest = each.number == fresh.number - 1
            return each if newest else replace(each, number=fresh.number)
    hashes = dict(fresh.hashes)
    for each in recorded:
        hashes |= {name: each.hashes[name] for name in hashes if _same_clique(each, fresh, name)}
    return replace(fresh, hashes=hashes)


def revision_object(set_: PodCliqueSet, revision: SetRevision) -> JsonObject:
    """The ControllerRevision of a revision."""
    data = _Data(
        cliques=tuple(_clique(name, parts) for name, parts in revision.templates.items()),
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
            "ownerReferences": [owner_reference(SETS, set_.metadata)],
        },
        "revision": revision.number,
        "data": msgspec.to_builtins(data),
    }


def read_revision(revision: Revision) -> SetRevision:
    """What a ControllerRevision of a set holds."""
    data = msgspec.convert(revision.data, _Data)
    return SetRevision(
        name=revision.metadata.name,
        hash=revision.metadata.labels.get(names.GENERATION_HASH, ""),
        number=revision.revision,
        templates={
            each.name: CliqueParts(each.labels, each.annotations, each.pod_spec)
            for each in data.cliques
        },
        priority_class_name=data.priority_class_name,
        hashes=data.hashes,
    )


def spent_revisions(known: Sequence[Revision], used: Container[str]) -> list[Revision]:
    """Those to delete: but the newest few, all whose hash nothing is made from."""
    newest_first = sorted(known, key=lambda each: each.revision, reverse=True)
    return [
        each
        for each in newest_first[_KEPT:]
        if each.metadata.labels.get(names.GENERATION_HASH, "") not in used
    ]


class _Clique(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    pod_spec: dict[str, Any]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    cliques: tuple[_Clique, ...]
    hashes: dict[str, str]
    priority_class_name: str = ""


def _of_templates(set_: PodCliqueSet, number: int) -> SetRevision:
    template = set_.spec.template
    priority = template.priority_class_name
    cliques = {
        each.name: CliqueParts(each.labels, each.annotations, each.spec.pod_spec)
        for each in template.cliques
    }
    written = {name: _clique(name, parts) for name, parts in cliques.items()}
    whole = _digest([*(written[name] for name in sorted(written)), priority])
    return SetRevision(
        name=names.revision(set_.metadata.name, whole),
        hash=whole,
        number=number,
        templates=cliques,
        priority_class_name=priority,
        hashes={name: _digest([each, priority]) for name, each in written.items()},
    )


def _same_templates(one: SetRevision, other: SetRevision) -> bool:
    return one.priority_class_name == other.priority_class_name and one.templates == other.templates


def _same_clique(one: SetRevision, other: SetRevision, clique: str) -> bool:
    return (
        clique in one.hashes
        and one.priority_class_name == other.priority_class_name
        and one.templates.get(clique) == other.templates.get(clique)
    )


def _clique(name: str, parts: CliqueParts) -> _Clique:
    return _Clique(name, dict(parts.labels), dict(parts.annotations), parts.pod_spec)


def _digest(value: object) -> str:
    canonical = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_HASH_LENGTH]

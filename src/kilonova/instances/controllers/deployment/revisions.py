"""Revisions: templates that were rolled out, kept as ControllerRevisions. Pure.

Templates are compared, not hashes: a version with another hash function still finds the revision of
a deployment and goes on with its recorded hash, so that an upgrade replaces no instances.
"""

import hashlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import EngineSpec, InferenceEngineDeployment, names
from kilonova.api.json import JsonObject
from kilonova.instances.controllers.deployment.template import DeploymentTemplate
from kilonova.instances.resources import DEPLOYMENTS, ControllerRevision
from kilonova.kube.owner_references import build_owner_reference

_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True)
class DeploymentRevision:
    """A template that was rolled out."""

    name: str
    """The name of the ControllerRevision."""
    hash: str
    number: int
    """The newest has the greatest."""
    template: DeploymentTemplate

    @property
    def release(self) -> str:
        """The name of the release, empty if the template names none."""
        return self.template.spec.release

    @property
    def title(self) -> str:
        """For messages: `release r2`, or `revision 2` if it has none."""
        return f"release {self.release}" if self.release else f"revision {self.number}"


def resolve_current_revision(
    deployment: InferenceEngineDeployment,
    template: DeploymentTemplate,
    known: Iterable[DeploymentRevision],
) -> DeploymentRevision:
    """The revision of a template: a known one, made the newest, or a new one.

    A deployment that is rolled back finds the old revision, which then gets a new number.
    """
    recorded = sort_newest_first(known)
    next_number = recorded[0].number + 1 if recorded else 1
    for each in recorded:
        if each.template.spec == template.spec:
            newest = each.number == next_number - 1
            return each if newest else replace(each, number=next_number)
    hash_ = _hash_template(template.spec)
    name = names.revision(deployment.metadata.name, hash_)
    return DeploymentRevision(name, hash_, next_number, template)


def sort_newest_first(revisions: Iterable[DeploymentRevision]) -> list[DeploymentRevision]:
    """Revisions by their numbers."""
    return sorted(revisions, key=lambda each: each.number, reverse=True)


def select_expired_revisions(
    revisions: Sequence[DeploymentRevision], used_hashes: Container[str], limit: int
) -> list[DeploymentRevision]:
    """The revisions beyond the history limit that no instance is made from. The newest is not
    counted: it is the current one."""
    former = sort_newest_first(revisions)[1:]
    return [each for each in former[limit:] if each.hash not in used_hashes]


def build_controller_revision(
    deployment: InferenceEngineDeployment, revision: DeploymentRevision
) -> JsonObject:
    """The ControllerRevision of a revision."""
    data = _RevisionData(encode_template(revision.template.spec), revision.template.is_inline)
    return {
        "metadata": {
            "name": revision.name,
            "namespace": deployment.metadata.namespace,
            "labels": {
                grove_names.MANAGED_BY: names.MANAGER,
                names.DEPLOYMENT: deployment.metadata.name,
                names.TEMPLATE_HASH: revision.hash,
            },
            "ownerReferences": [build_owner_reference(DEPLOYMENTS, deployment.metadata)],
        },
        "revision": revision.number,
        "data": msgspec.to_builtins(data),
    }


def decode_revision(revision: ControllerRevision) -> DeploymentRevision:
    """Decode a ControllerRevision."""
    data = msgspec.convert(revision.data, _RevisionData)
    spec = msgspec.convert(data.template, EngineSpec)
    return DeploymentRevision(
        name=revision.metadata.name,
        hash=revision.metadata.labels.get(names.TEMPLATE_HASH, ""),
        number=revision.revision,
        template=DeploymentTemplate(spec, data.inline),
    )


def encode_template(spec: EngineSpec) -> JsonObject:
    """The JSON of a template, without fields that have their default."""
    defaults = EngineSpec(model="")
    return {
        field.encode_name: msgspec.to_builtins(getattr(spec, field.name))
        for field in msgspec.structs.fields(EngineSpec)
        if getattr(spec, field.name) != getattr(defaults, field.name)
    }


class _RevisionData(msgspec.Struct, frozen=True, rename="camel"):
    template: dict[str, Any]
    inline: bool = True


def _hash_template(spec: EngineSpec) -> str:
    canonical = msgspec.json.encode(encode_template(spec), order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_HASH_LENGTH]

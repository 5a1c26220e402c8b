"""What to write so that the cluster has what is desired. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.inference_engine import InferenceEngineDeployment, names
from kilonova.api.json import JsonObject
from kilonova.fleet.documents import Desired, DesiredDeployment, Relocation
from kilonova.kube import Key

TEMPLATE_HASH = "fleet.kilonova.dev/template-hash"
"""Annotation: the hash of the template as it was decided, since defaults are added to it."""
RELOCATION = "fleet.kilonova.dev/relocation"
"""Annotation: the number of the last relocation that was reported on instances."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "kilonova-fleet"


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """What to write."""

    apply: tuple[DesiredDeployment, ...]
    delete: tuple[InferenceEngineDeployment, ...]
    relocations: tuple[tuple[DesiredDeployment, Relocation], ...] = ()
    """Relocations to report on the instances, before they are deleted."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was applied, and the generation that the object had then."""

    deployment: DesiredDeployment
    uid: str
    generation: int
    epoch: int


def plan_changes(
    desired: Desired,
    existing: Mapping[Key, InferenceEngineDeployment],
    applied: Mapping[Key, Applied],
) -> MemberPlan:
    """Compare what is desired with what exists of the fleet's deployments.

    One whose spec others changed is applied again: its generation is another than after the last
    time.
    """
    wanted = {(each.namespace, each.name): each for each in desired.deployments}
    changed = [
        each
        for key, each in wanted.items()
        if not _is_current(each, desired.epoch, existing.get(key), applied.get(key))
    ]
    surplus = [
        each
        for key, each in existing.items()
        if key not in wanted and each.metadata.deletion_timestamp is None
    ]
    relocations = [
        (each, each.relocation)
        for each in changed
        if each.relocation is not None
        and (found := existing.get((each.namespace, each.name))) is not None
        and each.relocation.number > _get_reported(found)
    ]
    return MemberPlan(tuple(changed), tuple(surplus), tuple(relocations))


def _is_current(
    wanted: DesiredDeployment,
    epoch: int,
    found: InferenceEngineDeployment | None,
    applied: Applied | None,
) -> bool:
    if found is None or applied is None or found.metadata.uid != applied.uid:
        return False
    if found.metadata.generation > applied.generation:
        return False
    return applied.epoch == epoch and _is_same(wanted, applied.deployment)


def _is_same(one: DesiredDeployment, other: DesiredDeployment) -> bool:
    """Whether two write the same: the reason is only for people."""
    return msgspec.structs.replace(one, reason="") == msgspec.structs.replace(other, reason="")


def _get_reported(found: InferenceEngineDeployment) -> int:
    text = found.metadata.annotations.get(RELOCATION, "0")
    return int(text) if text.isdecimal() else 0


def build_manifest(deployment: DesiredDeployment, epoch: int) -> JsonObject:
    """The InferenceEngineDeployment of a desired one."""
    template: JsonObject = msgspec.to_builtins(deployment.template)
    annotations = {
        names.FLEET_EPOCH: str(epoch),
        TEMPLATE_HASH: hash_template(deployment),
    }
    if deployment.relocation is not None:
        annotations[RELOCATION] = str(deployment.relocation.number)
    return {
        "metadata": {
            "name": deployment.name,
            "namespace": deployment.namespace,
            "labels": {
                names.GLOBAL_DEPLOYMENT: deployment.global_deployment,
                MANAGED_BY: MANAGER,
            },
            "annotations": annotations,
        },
        "spec": {
            "replicas": deployment.replicas,
            "release": deployment.release,
            "template": {name: each for name, each in template.items() if each or each == 0},
        },
    }


def hash_template(deployment: DesiredDeployment) -> str:
    """A short hash of the template."""
    content = msgspec.json.encode(deployment.template, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:16]


def select_relocated(
    instances: Sequence[tuple[str, str]], relocation: Relocation
) -> list[tuple[str, str]]:
    """The instances (name and uid) that a relocation is about, of those that cannot be placed."""
    return sorted(instances)[: relocation.instances]

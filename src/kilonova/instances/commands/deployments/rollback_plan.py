"""Which revision a deployment is rolled back to, and by which change. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineDeployment, Release, names
from kilonova.api.json import JsonObject
from kilonova.component.failure import CommandFailed
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    encode_template,
    sort_newest_first,
)
from kilonova.instances.controllers.deployment.template import (
    DeploymentTemplate,
    resolve_template,
)


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """What the user asks for: a release, a revision, or the one before the current one."""

    release: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The revision, and the JSON patch of the deployment."""

    revision: DeploymentRevision
    patch: list[JsonObject]
    notes: tuple[str, ...] = ()


def plan_rollback(
    deployment: InferenceEngineDeployment,
    revisions: Sequence[DeploymentRevision],
    releases: Sequence[Release],
    target: RollbackTarget,
) -> RollbackPlan:
    """The rollback; `CommandFailed` says why there is none. `releases` are those that exist."""
    _require_own_deployment(deployment)
    by_name = {each.metadata.name: each for each in releases}
    current = resolve_template(deployment, by_name.get(deployment.spec.release))
    former = [
        each
        for each in sort_newest_first(revisions)
        if not isinstance(current, DeploymentTemplate) or each.template.spec != current.spec
    ]
    revision = _find_revision(deployment, revisions, former, target)
    notes: list[str] = []
    if deployment.spec.paused:
        notes.append("the deployment is paused: nothing changes until spec.paused is false")
    spec = revision.template.spec
    release = by_name.get(revision.release)
    from_release = (
        not revision.template.is_inline
        and release is not None
        and resolve_template(_of_release(deployment, revision.release), release)
        == DeploymentTemplate(spec, is_inline=False)
    )
    if not from_release and not revision.template.is_inline:
        problem = f"Release {revision.release} is gone, or another one"
        notes.append(f"{problem}: its former template is written into the spec")
    template = None if from_release else _build_template(revision)
    return RollbackPlan(revision, _build_patch(deployment, revision, template), tuple(notes))


def _require_own_deployment(deployment: InferenceEngineDeployment) -> None:
    """A fleet would undo the change."""
    fleet = deployment.metadata.labels.get(names.GLOBAL_DEPLOYMENT)
    if fleet:
        problem = f"{deployment.metadata.name} is managed by the global Deployment {fleet}"
        raise CommandFailed(f"{problem}: roll that back, with `kilonova fleet rollback {fleet}`")


def _find_revision(
    deployment: InferenceEngineDeployment,
    revisions: Sequence[DeploymentRevision],
    former: Sequence[DeploymentRevision],
    target: RollbackTarget,
) -> DeploymentRevision:
    name = deployment.metadata.name
    if target.release is None and target.revision is None:
        if not former:
            raise CommandFailed(f"{name} has no former revision to roll back to")
        return former[0]
    what = f"revision {target.revision}" if target.release is None else f"release {target.release}"

    def matches(revision: DeploymentRevision) -> bool:
        if target.release is None:
            return revision.number == target.revision
        return revision.release == target.release

    found = next(filter(matches, former), None)
    if found is not None:
        return found
    if any(map(matches, revisions)):
        raise CommandFailed(f"{name} is at {what} already")
    known = ", ".join(f"{each.number} ({each.release or 'no release'})" for each in former)
    hint = f"there are {known}" if known else "it has no former revision"
    raise CommandFailed(f"{name} never had {what}, or has it no more: {hint}")


def _of_release(deployment: InferenceEngineDeployment, release: str) -> InferenceEngineDeployment:
    """The deployment as it would be with a release alone."""
    spec = replace(deployment.spec, release=release, template=None)
    return InferenceEngineDeployment(deployment.metadata, spec)


def _build_template(revision: DeploymentRevision) -> JsonObject:
    """The template to write; the release is named beside it."""
    template = encode_template(revision.template.spec)
    template.pop("release", None)
    return template


def _build_patch(
    deployment: InferenceEngineDeployment,
    revision: DeploymentRevision,
    template: JsonObject | None,
) -> list[JsonObject]:
    """A JSON patch: a merge patch would keep fields that the template does not have any more."""
    changes: list[JsonObject] = [
        {"op": "test", "path": "/metadata/uid", "value": deployment.metadata.uid},
        {"op": "add", "path": "/spec/release", "value": revision.release},
    ]
    if template is not None:
        changes.append({"op": "add", "path": "/spec/template", "value": template})
    elif deployment.spec.template is not None:
        changes.append({"op": "remove", "path": "/spec/template"})
    return changes

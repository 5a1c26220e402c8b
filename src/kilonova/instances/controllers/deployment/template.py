"""The template of a deployment: what its instances are made from. Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from kilonova.api.inference_engine import EngineSpec, InferenceEngineDeployment, Release

RELEASE_NOT_FOUND = "ReleaseNotFound"


@dataclass(frozen=True, slots=True)
class DeploymentTemplate:
    """The spec of instances."""

    spec: EngineSpec
    is_inline: bool
    """Whether it is that of the deployment itself, not that of a Release."""


@dataclass(frozen=True, slots=True)
class DeploymentProblem:
    """Why a deployment cannot be rolled out as it is."""

    reason: str
    message: str


def resolve_template(
    deployment: InferenceEngineDeployment, release: Release | None
) -> DeploymentTemplate | DeploymentProblem:
    """The template; `release` is the Release that the deployment names, if there is one."""
    spec = deployment.spec
    if spec.template is not None:
        named = spec.release or spec.template.release
        return DeploymentTemplate(replace(spec.template, release=named), is_inline=True)
    if release is None:
        where = f"{deployment.metadata.namespace}/{spec.release}"
        return DeploymentProblem(
            RELEASE_NOT_FOUND,
            f"Release {where} does not exist: create it, or set spec.release to one that exists",
        )
    return DeploymentTemplate(replace(release.spec, release=spec.release), is_inline=False)

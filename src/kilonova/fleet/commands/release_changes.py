"""What rollbacks and masks change in a deployment. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kilonova.api.inference_engine import Deployment
from kilonova.api.json import JsonObject
from kilonova.component.failure import CommandFailed


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """The changed fields of the spec, and what they do."""

    spec: JsonObject
    message: str


def plan_rollback(
    deployment: Deployment, existing: Collection[str], to_release: str | None
) -> ReleaseChange:
    """Go back to a release, by default the newest former one that did not fail.

    The current one is masked, so that all clusters leave it at once, without waves.
    """
    name, spec, history = deployment.metadata.name, deployment.spec, deployment.status.history
    current = spec.release
    former = [
        each.release
        for each in history
        if each.release != current
        and each.release not in spec.mask
        and each.release in existing
        and each.health != "Failing"
    ]
    if to_release is None:
        if not former:
            raise CommandFailed(
                f"{name} has no former release that could run: name one with --to-release"
            )
        to_release = former[0]
    if to_release == current:
        raise CommandFailed(f"{name} has release {current} already: name another one")
    if to_release not in existing:
        known = ", ".join(sorted(existing)) or "none"
        raise CommandFailed(f"release {to_release} does not exist; there are: {known}")
    mask = [*(each for each in spec.mask if each not in (current, to_release)), current]
    message = f"{name} goes from {current} to {to_release}; {current} is masked"
    return ReleaseChange({"release": to_release, "mask": mask}, message)


def plan_mask(
    deployment: Deployment, existing: Collection[str], releases: Sequence[str]
) -> ReleaseChange:
    """Mask releases: clusters that run one leave it at once."""
    name, spec = deployment.metadata.name, deployment.spec
    for each in releases:
        if each not in existing:
            known = ", ".join(sorted(existing)) or "none"
            raise CommandFailed(f"release {each} does not exist; there are: {known}")
    mask = list(dict.fromkeys([*spec.mask, *releases]))
    left = [
        each.release
        for each in deployment.status.history
        if each.release not in mask and each.release in existing
    ]
    if spec.release in mask and not left:
        raise CommandFailed(
            f"{name} has no other release in its history: roll out another one first"
        )
    message = f"{name}: masked {', '.join(releases)}"
    if spec.release in mask:
        message += f"; clusters go to {left[0]}: name it in spec.release"
    return ReleaseChange({"mask": mask}, message)


def plan_unmask(deployment: Deployment, releases: Sequence[str]) -> ReleaseChange:
    """Allow releases again."""
    name, mask = deployment.metadata.name, deployment.spec.mask
    for each in releases:
        if each not in mask:
            masked = ", ".join(mask) or "none"
            raise CommandFailed(f"{name}: release {each} is not masked; masked: {masked}")
    left = [each for each in mask if each not in releases]
    return ReleaseChange({"mask": left}, f"{name}: unmasked {', '.join(releases)}")

"""Which release a deployment rolls out, and which ones it may fall back to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.inference_engine import DeploymentRevision, DeploymentSpec
from kilonova.api.inference_engine.release import Verdict
from kilonova.api.times import format_rfc3339

RELEASE_NOT_FOUND = "ReleaseNotFound"
RELEASE_MASKED = "ReleaseMasked"
NO_UNMASKED_RELEASE = "NoUnmaskedRelease"

History = tuple[DeploymentRevision, ...]
"""The newest first."""


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """The release to roll out, empty if there is none, and what is wrong with the one that is
    asked for."""

    release: str
    reason: str = ""
    message: str = ""


def choose_release(
    spec: DeploymentSpec, history: History, existing: Collection[str]
) -> ReleaseChoice:
    """The release that is asked for; if it is masked, the newest one that is not."""
    if spec.release not in spec.mask:
        if spec.release in existing:
            return ReleaseChoice(spec.release)
        message = f"spec.release: release {spec.release!r} does not exist in this namespace"
        return ReleaseChoice("", RELEASE_NOT_FOUND, message)
    found = find_unmasked(history, spec.mask, existing)
    message = f"spec.release: {spec.release!r} is masked by spec.mask"
    if not found:
        problem = f"{message}, and so is every release of the history: instances stay as they are"
        return ReleaseChoice("", NO_UNMASKED_RELEASE, f"{problem}; name another release")
    return ReleaseChoice(found, RELEASE_MASKED, f"{message}: clusters run {found}; name it instead")


def find_unmasked(history: History, mask: Collection[str], existing: Collection[str]) -> str:
    """The newest release of the history that is not masked, if possible one that did not fail;
    empty if there is none."""
    allowed = [each for each in history if each.release not in mask and each.release in existing]
    sound = [each for each in allowed if each.health != "Failing"]
    return next((each.release for each in sound or allowed), "")


def find_stable(
    history: History, mask: Collection[str], existing: Collection[str], avoid: str
) -> str:
    """The newest release that was rolled out completely, and is neither masked nor the one to
    avoid; else the newest that did not fail; empty if there is none."""
    allowed = [
        each
        for each in history
        if each.release not in mask
        and each.release in existing
        and each.release != avoid
        and each.health != "Failing"
    ]
    sound = [each for each in allowed if each.health == "Healthy"]
    return next((each.release for each in sound or allowed), "")


def add_revision(history: History, release: str, now: datetime, limit: int) -> History:
    """The history with a rollout of the release as its newest; a former one is left out."""
    number = max((each.revision for each in history), default=0) + 1
    newest = DeploymentRevision(number, release, format_rfc3339(now))
    return (newest, *(each for each in history if each.release != release))[:limit]


def judge(history: Sequence[DeploymentRevision], health: Verdict) -> History:
    """The history with the verdict on its newest release."""
    return (replace(history[0], health=health), *history[1:])

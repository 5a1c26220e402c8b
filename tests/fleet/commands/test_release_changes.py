"""What rollbacks and masks change, as tables."""

from typing import Any

import pytest

from kilonova.api.inference_engine import (
    Deployment,
    DeploymentRevision,
    DeploymentSpec,
    DeploymentStatus,
)
from kilonova.api.meta import Metadata
from kilonova.component.failure import CommandFailed
from kilonova.fleet.commands.release_changes import plan_mask, plan_rollback, plan_unmask

RELEASES = ["v1", "v2", "v3"]


def deployment(release: str = "v3", mask: tuple[str, ...] = (), failing: str = "") -> Deployment:
    history = tuple(
        DeploymentRevision(
            number, f"v{number}", health="Failing" if f"v{number}" == failing else "Healthy"
        )
        for number in (3, 2, 1)
    )
    spec = DeploymentSpec(release=release, replicas=1, mask=mask)
    return Deployment(Metadata("chat", "1", "1"), spec, DeploymentStatus(history=history))


ROLLBACKS: dict[str, tuple[Deployment, str | None, dict[str, Any]]] = {
    "to the last one": (deployment(), None, {"release": "v2", "mask": ["v3"]}),
    "past one that failed": (deployment(failing="v2"), None, {"release": "v1", "mask": ["v3"]}),
    "past a masked one": (
        deployment(mask=("v2",)),
        None,
        {"release": "v1", "mask": ["v2", "v3"]},
    ),
    "to a masked one that is named": (
        deployment(mask=("v2",)),
        "v2",
        {"release": "v2", "mask": ["v3"]},
    ),
    "to a named one": (deployment(), "v1", {"release": "v1", "mask": ["v3"]}),
}


@pytest.mark.parametrize(("found", "to_release", "spec"), ROLLBACKS.values(), ids=ROLLBACKS)
def test_rollback(found: Deployment, to_release: str | None, spec: dict[str, Any]) -> None:
    assert plan_rollback(found, RELEASES, to_release).spec == spec


@pytest.mark.parametrize(
    ("found", "to_release", "message"),
    [
        (deployment("v3", ("v1", "v2")), None, "chat has no former release that could run"),
        (deployment(), "v3", "chat has release v3 already"),
        (deployment(), "v9", "release v9 does not exist; there are: v1, v2, v3"),
    ],
)
def test_rollback_that_is_not_possible(
    found: Deployment, to_release: str | None, message: str
) -> None:
    with pytest.raises(CommandFailed, match=message):
        plan_rollback(found, RELEASES, to_release)


def test_mask_says_where_clusters_go() -> None:
    change = plan_mask(deployment(), RELEASES, ["v3"])
    assert change.spec == {"mask": ["v3"]}
    assert change.message == "chat: masked v3; clusters go to v2: name it in spec.release"


def test_last_release_is_not_masked() -> None:
    with pytest.raises(CommandFailed, match="no other release in its history"):
        plan_mask(deployment(mask=("v1", "v2")), RELEASES, ["v3"])


def test_unmask_names_what_is_masked() -> None:
    assert plan_unmask(deployment(mask=("v1", "v2")), ["v1"]).spec == {"mask": ["v2"]}
    with pytest.raises(CommandFailed, match="release v3 is not masked; masked: v1"):
        plan_unmask(deployment(mask=("v1",)), ["v3"])

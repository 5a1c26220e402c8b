"""Which revision a deployment is rolled back to, and by which change."""

from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineDeployment, names
from kilonova.component.failure import CommandFailed
from kilonova.instances.commands.deployments.rollback_plan import (
    RollbackPlan,
    RollbackTarget,
    plan_rollback,
)
from kilonova.instances.controllers.deployment.revisions import DeploymentRevision
from kilonova.instances.controllers.deployment.template import DeploymentTemplate
from tests.instances.deployment.deployments import (
    deployment,
    release_object,
    revision,
    template,
)

R1, R2, R3 = revision("r1", 1), revision("r2", 2), revision("r3", 3)
PREVIOUS = RollbackTarget()


def plan(
    of: InferenceEngineDeployment, target: RollbackTarget = PREVIOUS, **fields: Any
) -> RollbackPlan:
    known: list[DeploymentRevision] = fields.get("revisions", [R1, R2, R3])
    return plan_rollback(of, known, fields.get("releases", []), target)


def failure_of(of: InferenceEngineDeployment, target: RollbackTarget, **fields: Any) -> str:
    with pytest.raises(CommandFailed) as failed:
        plan(of, target, **fields)
    return str(failed.value)


@pytest.mark.parametrize(
    ("current", "target", "expected"),
    [
        ("r3", PREVIOUS, R2),
        ("r2", PREVIOUS, R3),
        ("r3", RollbackTarget(release="r1"), R1),
        ("r3", RollbackTarget(revision=1), R1),
        # A change that was never rolled out, such as one that is paused.
        ("r4", PREVIOUS, R3),
    ],
)
def test_revision(current: str, target: RollbackTarget, expected: DeploymentRevision) -> None:
    assert plan(deployment(current), target).revision == expected


def test_missing_release_is_rolled_back_to_the_newest_revision() -> None:
    assert plan(deployment("r4", template=None)).revision == R3


def test_template_is_replaced_as_a_whole() -> None:
    assert plan(deployment("r3")).patch == [
        {"op": "test", "path": "/metadata/uid", "value": "ied"},
        {"op": "add", "path": "/spec/release", "value": "r2"},
        {
            "op": "add",
            "path": "/spec/template",
            "value": {"model": "llama", "targetAgents": 4, "image": "r2"},
        },
    ]


def of_release(name: str, number: int) -> DeploymentRevision:
    found = revision(name, number)
    return DeploymentRevision(
        found.name, found.hash, number, DeploymentTemplate(template(name), is_inline=False)
    )


def test_release_is_named_where_it_gave_the_template() -> None:
    found = plan(
        deployment("r3", template=None),
        revisions=[of_release("r2", 2), of_release("r3", 3)],
        releases=[release_object("r2"), release_object("r3")],
    )
    assert found.patch[1:] == [{"op": "add", "path": "/spec/release", "value": "r2"}]
    assert found.notes == ()


def test_release_replaces_an_inline_template() -> None:
    found = plan(
        deployment("r3"),
        revisions=[of_release("r2", 2), R3],
        releases=[release_object("r2")],
    )
    assert found.patch[1:] == [
        {"op": "add", "path": "/spec/release", "value": "r2"},
        {"op": "remove", "path": "/spec/template"},
    ]


@pytest.mark.parametrize("releases", [[], [release_object("r2", image="other")]])
def test_template_of_a_release_that_is_gone_is_written_into_the_spec(releases: Any) -> None:
    found = plan(
        deployment("r3", template=None),
        revisions=[of_release("r2", 2), of_release("r3", 3)],
        releases=[release_object("r3"), *releases],
    )
    assert found.patch[2]["value"]["image"] == "r2"
    assert found.notes == (
        "Release r2 is gone, or another one: its former template is written into the spec",
    )


def test_paused_deployment_is_noted() -> None:
    assert plan(deployment("r3", paused=True)).notes == (
        "the deployment is paused: nothing changes until spec.paused is false",
    )


def test_failures_say_what_there_is() -> None:
    of = deployment("r3")
    assert failure_of(of, RollbackTarget(release="r9")) == (
        "llama never had release r9, or has it no more: there are 2 (r2), 1 (r1)"
    )
    assert failure_of(of, RollbackTarget(revision=9)).startswith("llama never had revision 9")
    assert failure_of(of, RollbackTarget(release="r3")) == "llama is at release r3 already"
    assert failure_of(of, RollbackTarget(revision=3)) == "llama is at revision 3 already"
    assert failure_of(of, PREVIOUS, revisions=[R3]) == (
        "llama has no former revision to roll back to"
    )


def test_deployment_of_a_fleet_is_rolled_back_there() -> None:
    of = deployment("r3")
    known = replace(of.metadata, labels={names.GLOBAL_DEPLOYMENT: "llama"})
    managed = InferenceEngineDeployment(known, of.spec, of.status)
    assert failure_of(managed, PREVIOUS) == (
        "llama is managed by the global Deployment llama: roll that back, with `kilonova fleet "
        "rollback llama`"
    )

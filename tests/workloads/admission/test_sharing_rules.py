"""Rules for claims of devices that pods share (4 and 5)."""

import pytest

from tests.workloads.admission.rules import CLIQUES, GROUPS, changed, claim_template, found, shared
from tests.workloads.admission.written import JsonObject, pod_clique_set


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 4: claim templates
        (
            pod_clique_set(resourceClaimTemplates=[claim_template("")]),
            [
                "spec.template.resourceClaimTemplates[0].name: Required value: must be the name of "
                "a claim template"
            ],
        ),
        (
            pod_clique_set(resourceClaimTemplates=[claim_template("x"), claim_template("x")]),
            ['spec.template.resourceClaimTemplates[1].name: Duplicate value: "x"'],
        ),
        (
            pod_clique_set(resourceClaimTemplates=[claim_template("x", {"devices": {}})]),
            [
                "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: "
                "Required value: a claim asks for at least one device"
            ],
        ),
        # 5: sharing, at each level
        (
            pod_clique_set(resourceSharing=[shared("")]),
            [
                "spec.template.resourceSharing[0].name: Required value: must be the name of a "
                "claim template"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].resourceSharing", [shared("x"), shared("x")]),
            [f'{CLIQUES}[0].resourceSharing[1].name: Duplicate value: "x"'],
        ),
        (
            changed(f"{GROUPS}[0].resourceSharing[0].namespace", "elsewhere"),
            [
                f'{GROUPS}[0].resourceSharing[0].namespace: Invalid value: "elsewhere": must be '
                'empty: "gpus" is a resourceClaimTemplate of this set'
            ],
        ),
        (
            changed("spec.template.resourceSharing[0].scope", "Some"),
            [
                'spec.template.resourceSharing[0].scope: Unsupported value: "Some": supported '
                'values: "AllReplicas", "PerReplica"'
            ],
        ),
        (
            changed("spec.template.resourceSharing[0].filter", {}),
            ["spec.template.resourceSharing[0].filter: Required value: a filter names somebody"],
        ),
        (
            changed(
                "spec.template.resourceSharing[0].filter",
                {"childCliqueNames": ["nobody"], "childScalingGroupNames": ["engine", "none"]},
            ),
            [
                "spec.template.resourceSharing[0].filter.childCliqueNames[0]: Not found: "
                '"nobody": must be a clique of this',
                "spec.template.resourceSharing[0].filter.childScalingGroupNames[1]: Not found: "
                '"none": must be a scaling group of this set',
            ],
        ),
        (
            changed(f"{GROUPS}[0].resourceSharing[0].filter.childCliqueNames", ["router"]),
            [
                f"{GROUPS}[0].resourceSharing[0].filter.childCliqueNames[0]: Not found: "
                '"router": must be a clique of this'
            ],
        ),
    ],
)
def test_claims_that_nobody_can_share_are_refused(obj: JsonObject, problems: list[str]) -> None:
    assert found(obj) == problems

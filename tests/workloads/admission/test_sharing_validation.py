"""Rules for claims of devices that pods share (4 and 5)."""

import pytest

from tests.workloads.admission.full_set import (
    CLIQUES,
    GROUPS,
    build_claim_template,
    build_sharing,
    validate_object,
    with_changed_field,
)
from tests.workloads.admission.set_manifests import JsonObject, pod_clique_set


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 4: claim templates
        (
            pod_clique_set(resourceClaimTemplates=[build_claim_template("")]),
            [
                "spec.template.resourceClaimTemplates[0].name: Required value: must be the name of "
                "a claim template"
            ],
        ),
        (
            pod_clique_set(
                resourceClaimTemplates=[build_claim_template("x"), build_claim_template("x")]
            ),
            ['spec.template.resourceClaimTemplates[1].name: Duplicate value: "x"'],
        ),
        (
            pod_clique_set(resourceClaimTemplates=[build_claim_template("x", {"devices": {}})]),
            [
                "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: "
                "Required value: at least one device request is needed"
            ],
        ),
        # 5: sharing, at each level
        (
            pod_clique_set(resourceSharing=[build_sharing("")]),
            [
                "spec.template.resourceSharing[0].name: Required value: must be the name of a "
                "claim template"
            ],
        ),
        (
            with_changed_field(
                f"{CLIQUES}[0].resourceSharing", [build_sharing("x"), build_sharing("x")]
            ),
            [f'{CLIQUES}[0].resourceSharing[1].name: Duplicate value: "x"'],
        ),
        (
            with_changed_field(f"{GROUPS}[0].resourceSharing[0].namespace", "elsewhere"),
            [
                f'{GROUPS}[0].resourceSharing[0].namespace: Invalid value: "elsewhere": must be '
                'empty: "gpus" is a resourceClaimTemplate of this set'
            ],
        ),
        (
            with_changed_field("spec.template.resourceSharing[0].scope", "Some"),
            [
                'spec.template.resourceSharing[0].scope: Unsupported value: "Some": supported '
                'values: "AllReplicas", "PerReplica"'
            ],
        ),
        (
            with_changed_field("spec.template.resourceSharing[0].filter", {}),
            [
                "spec.template.resourceSharing[0].filter: Required value: must name at least one "
                "clique or scaling group"
            ],
        ),
        (
            with_changed_field(
                "spec.template.resourceSharing[0].filter",
                {"childCliqueNames": ["nobody"], "childScalingGroupNames": ["engine", "none"]},
            ),
            [
                "spec.template.resourceSharing[0].filter.childCliqueNames[0]: Not found: "
                '"nobody": must be a clique of the owner',
                "spec.template.resourceSharing[0].filter.childScalingGroupNames[1]: Not found: "
                '"none": must be a scaling group of this set',
            ],
        ),
        (
            with_changed_field(
                f"{GROUPS}[0].resourceSharing[0].filter.childCliqueNames", ["router"]
            ),
            [
                f"{GROUPS}[0].resourceSharing[0].filter.childCliqueNames[0]: Not found: "
                '"router": must be a clique of the owner'
            ],
        ),
    ],
)
def test_claims_that_cannot_be_shared_are_rejected(obj: JsonObject, problems: list[str]) -> None:
    assert validate_object(obj) == problems

"""Mutable and immutable fields of a set."""

from typing import Any

import pytest

from kilonova.workloads.admission import ValidationContext, apply_defaults, validate_update
from tests.workloads.admission.set_manifests import clique, group, pod_clique_set, set_field

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
MNNVL = "grove.io/mnnvl-group"
CLAIM = {
    "name": "gpus",
    "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}},
}
SHARED = {"name": "gpus", "scope": "AllReplicas"}
OLD = apply_defaults(
    pod_clique_set(
        clique("a", 3, minAvailable=2),
        clique("b", startsAfter=["a"]),
        clique("c"),
        groups=(group("g", "b", "c", replicas=2, minAvailable=1),),
        cliqueStartupType="CliqueStartupTypeExplicit",
    )
)


def list_change_errors(new: dict[str, Any], old: dict[str, Any] = OLD) -> list[str]:
    problems = validate_update(old, new, ValidationContext()).errors
    return [f"{each.field}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.replicas", 7),
        ("spec.updateStrategy", {"type": "OnDelete"}),
        ("spec.template.priorityClassName", "high"),
        ("spec.template.terminationDelay", "1m"),
        ("spec.template.headlessServiceConfig.publishNotReadyAddresses", False),
        ("spec.template.backoffLimit", 1),
        (f"{CLIQUES}[0].labels", {"x": "y"}),
        (f"{CLIQUES}[0].spec.replicas", 9),
        (f"{CLIQUES}[0].spec.autoScalingConfig", {"minReplicas": 2, "maxReplicas": 9}),
        (f"{CLIQUES}[0].spec.podSpec.containers[0].image", "other"),
        (f"{CLIQUES}[0].spec.rollingUpdate", {"maxUnavailable": 2}),
        (f"{GROUPS}[0].replicas", 5),
        (f"{GROUPS}[0].scaleConfig", {"minReplicas": 1, "maxReplicas": 9}),
        ("metadata.labels", {"x": "y"}),
    ],
)
def test_mutable_fields_can_change(path, value):
    assert list_change_errors(set_field(OLD, path, value)) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (
            "spec.template.cliqueStartupType",
            "CliqueStartupTypeAnyOrder",
            'spec.template.cliqueStartupType: Invalid value: "CliqueStartupTypeAnyOrder": field is '
            'immutable: it was "CliqueStartupTypeExplicit"',
        ),
        (
            "spec.template.resourceClaimTemplates",
            [CLAIM],
            "spec.template.resourceClaimTemplates: Forbidden: field is immutable",
        ),
        (
            "spec.template.resourceSharing",
            [SHARED],
            "spec.template.resourceSharing: Forbidden: field is immutable",
        ),
        (
            f"{CLIQUES}[0].spec.roleName",
            "other",
            f'{CLIQUES}[0].spec.roleName: Invalid value: "other": field is immutable: it was '
            '"a-role"',
        ),
        (
            f"{CLIQUES}[0].spec.minAvailable",
            1,
            f"{CLIQUES}[0].spec.minAvailable: Invalid value: 1: field is immutable: it was 2",
        ),
        (
            f"{CLIQUES}[2].spec.startsAfter",
            ["a"],
            f"{CLIQUES}[2].spec.startsAfter: Forbidden: field is immutable",
        ),
        (
            f"{CLIQUES}[0].resourceSharing",
            [SHARED],
            f"{CLIQUES}[0].resourceSharing: Forbidden: field is immutable",
        ),
        (
            f"{GROUPS}[0].cliqueNames",
            ["c", "b"],
            f"{GROUPS}[0].cliqueNames: Forbidden: field is immutable",
        ),
        (
            f"{GROUPS}[0].minAvailable",
            2,
            f"{GROUPS}[0].minAvailable: Invalid value: 2: field is immutable: it was 1",
        ),
        (
            f"{GROUPS}[0].resourceSharing",
            [SHARED],
            f"{GROUPS}[0].resourceSharing: Forbidden: field is immutable",
        ),
        (
            "metadata.annotations",
            {MNNVL: "none"},
            f"metadata.annotations[{MNNVL}]: Forbidden: field is immutable: it was absent",
        ),
        (
            f"{CLIQUES}[1].annotations",
            {MNNVL: "pair"},
            f"{CLIQUES}[1].annotations[{MNNVL}]: Forbidden: field is immutable: it was absent",
        ),
        (
            f"{GROUPS}[0].annotations",
            {MNNVL: "pair"},
            f"{GROUPS}[0].annotations[{MNNVL}]: Forbidden: field is immutable: it was absent",
        ),
    ],
)
def test_immutable_fields_cannot_change(path, value, problem):
    assert list_change_errors(set_field(OLD, path, value)) == [problem]


def test_scheduler_name_is_immutable():
    old = pod_clique_set(clique("a"))
    new = set_field(old, f"{CLIQUES}[0].spec.podSpec.schedulerName", "kilonova-scheduler")
    assert list_change_errors(apply_defaults(new), apply_defaults(old)) == [
        f'{CLIQUES}[0].spec.podSpec.schedulerName: Invalid value: "kilonova-scheduler": '
        "field is immutable: it was unset"
    ]


def test_cliques_are_neither_added_nor_removed_nor_renamed():
    cliques = OLD["spec"]["template"]["cliques"]
    more = apply_defaults(set_field(OLD, f"{CLIQUES}[3]", clique("d")))
    assert list_change_errors(more) == [
        f'{CLIQUES}[3]: Forbidden: "d" cannot be added to an existing PodCliqueSet'
    ]
    old = apply_defaults(pod_clique_set(clique("a"), clique("b")))
    assert list_change_errors(apply_defaults(pod_clique_set(clique("b"))), old) == [
        f'{CLIQUES}: Forbidden: "a" cannot be removed from an existing PodCliqueSet'
    ]
    renamed = apply_defaults(set_field(OLD, CLIQUES, [*cliques[:2], clique("d")]))
    assert list_change_errors(set_field(renamed, f"{GROUPS}[0].cliqueNames", ["b", "d"])) == [
        f'{CLIQUES}[2]: Forbidden: "d" cannot be added to an existing PodCliqueSet',
        f'{CLIQUES}: Forbidden: "c" cannot be removed from an existing PodCliqueSet',
        f"{GROUPS}[0].cliqueNames: Forbidden: field is immutable",
    ]


def test_scaling_groups_are_neither_added_nor_removed():
    assert list_change_errors(set_field(OLD, f"{GROUPS}[1]", group("h", "a"))) == [
        f'{GROUPS}[1]: Forbidden: "h" cannot be added to an existing PodCliqueSet'
    ]
    assert list_change_errors(set_field(OLD, GROUPS, [])) == [
        f'{GROUPS}: Forbidden: "g" cannot be removed from an existing PodCliqueSet'
    ]


@pytest.mark.parametrize(
    ("startup", "problems"),
    [
        ("AnyOrder", []),
        *(
            (
                startup,
                [
                    f'{CLIQUES}[0].name: Invalid value: "b": cliques must keep their '
                    'order: expected "a" at this index',
                    f'{CLIQUES}[1].name: Invalid value: "a": cliques must keep their '
                    'order: expected "b" at this index',
                ],
            )
            for startup in ("InOrder", "Explicit")
        ),
    ],
)
def test_cliques_keep_their_order_unless_any_order(startup, problems):
    chosen = {"cliqueStartupType": f"CliqueStartupType{startup}"}
    old = apply_defaults(pod_clique_set(clique("a"), clique("b"), **chosen))
    new = apply_defaults(pod_clique_set(clique("b"), clique("a"), **chosen))
    assert list_change_errors(new, old) == problems


def test_general_rules_are_checked_before_immutability():
    new = set_field(OLD, f"{CLIQUES}[0].spec.roleName", "other")
    assert list_change_errors(set_field(new, f"{CLIQUES}[0].spec.replicas", 1)) == [
        f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must not be greater than replicas (1)"
    ]


def test_stored_set_without_defaults_is_compared_with_defaults():
    old = pod_clique_set(clique("a", 2))
    assert list_change_errors(apply_defaults(set_field(old, "spec.replicas", 3)), old) == []


def test_invalid_stored_set_can_still_be_finalized():
    broken = pod_clique_set(clique("a"), clique("a"), name="A.b")
    finalized = set_field(broken, "metadata.finalizers", ["grove.io/podcliqueset.grove.io"])
    assert list_change_errors(apply_defaults(broken), finalized) == []
    (problem,) = list_change_errors(
        set_field(apply_defaults(broken), "spec.replicas", "x"), finalized
    )
    assert problem.startswith('spec.replicas: Invalid value: "x"')


def test_undecodable_stored_set_can_be_repaired():
    old = set_field(OLD, f"{CLIQUES}[0].spec.roleName", 3)
    assert list_change_errors(OLD, old) == []


def test_changing_template_replicas_warns() -> None:
    new = set_field(set_field(OLD, f"{CLIQUES}[0].spec.replicas", 5), f"{GROUPS}[0].replicas", 3)
    found = validate_update(OLD, new, ValidationContext())
    assert found.errors == ()
    assert found.warnings == (
        f"{CLIQUES}[0].spec.replicas: applies only to new objects; "
        "use `kubectl scale podclique` for existing ones",
        f"{GROUPS}[0].replicas: applies only to new objects; "
        "use `kubectl scale podcliquescalinggroup` for existing ones",
    )
    assert (
        validate_update(OLD, set_field(OLD, "spec.replicas", 4), ValidationContext()).warnings == ()
    )

"""What of a set may change, and what never does."""

from typing import Any

import pytest

from kilonova.workloads.admission import Context, defaulted, validate_update
from tests.workloads.admission.written import clique, group, pod_clique_set, with_value

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
MNNVL = "grove.io/mnnvl-group"
CLAIM = {
    "name": "gpus",
    "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}},
}
SHARED = {"name": "gpus", "scope": "AllReplicas"}
OLD = defaulted(
    pod_clique_set(
        clique("a", 3, minAvailable=2),
        clique("b", startsAfter=["a"]),
        clique("c"),
        groups=(group("g", "b", "c", replicas=2, minAvailable=1),),
        cliqueStartupType="CliqueStartupTypeExplicit",
    )
)


def changes(new: dict[str, Any], old: dict[str, Any] = OLD) -> list[str]:
    problems = validate_update(old, new, Context()).problems
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
def test_what_may_change(path, value):
    assert changes(with_value(OLD, path, value)) == []


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
def test_what_may_not_change(path, value, problem):
    assert changes(with_value(OLD, path, value)) == [problem]


def test_all_pods_keep_their_scheduler():
    old = pod_clique_set(clique("a"))
    new = with_value(old, f"{CLIQUES}[0].spec.podSpec.schedulerName", "kilonova-scheduler")
    assert changes(defaulted(new), defaulted(old)) == [
        f'{CLIQUES}[0].spec.podSpec.schedulerName: Invalid value: "kilonova-scheduler": '
        "field is immutable: it was unset"
    ]


def test_cliques_are_neither_added_nor_removed_nor_renamed():
    cliques = OLD["spec"]["template"]["cliques"]
    more = defaulted(with_value(OLD, f"{CLIQUES}[3]", clique("d")))
    assert changes(more) == [f'{CLIQUES}[3]: Forbidden: "d" cannot be added to a set that exists']
    old = defaulted(pod_clique_set(clique("a"), clique("b")))
    assert changes(defaulted(pod_clique_set(clique("b"))), old) == [
        f'{CLIQUES}: Forbidden: "a" cannot be removed from a set that exists'
    ]
    renamed = defaulted(with_value(OLD, CLIQUES, [*cliques[:2], clique("d")]))
    assert changes(with_value(renamed, f"{GROUPS}[0].cliqueNames", ["b", "d"])) == [
        f'{CLIQUES}[2]: Forbidden: "d" cannot be added to a set that exists',
        f'{CLIQUES}: Forbidden: "c" cannot be removed from a set that exists',
        f"{GROUPS}[0].cliqueNames: Forbidden: field is immutable",
    ]


def test_scaling_groups_are_neither_added_nor_removed():
    assert changes(with_value(OLD, f"{GROUPS}[1]", group("h", "a"))) == [
        f'{GROUPS}[1]: Forbidden: "h" cannot be added to a set that exists'
    ]
    assert changes(with_value(OLD, GROUPS, [])) == [
        f'{GROUPS}: Forbidden: "g" cannot be removed from a set that exists'
    ]


@pytest.mark.parametrize(
    ("startup", "problems"),
    [
        ("AnyOrder", []),
        *(
            (
                startup,
                [
                    f'{CLIQUES}[0].name: Invalid value: "b": cliques must stay in order: this '
                    'place is of "a"',
                    f'{CLIQUES}[1].name: Invalid value: "a": cliques must stay in order: this '
                    'place is of "b"',
                ],
            )
            for startup in ("InOrder", "Explicit")
        ),
    ],
)
def test_cliques_stay_in_order_where_order_counts(startup, problems):
    chosen = {"cliqueStartupType": f"CliqueStartupType{startup}"}
    old = defaulted(pod_clique_set(clique("a"), clique("b"), **chosen))
    new = defaulted(pod_clique_set(clique("b"), clique("a"), **chosen))
    assert changes(new, old) == problems


def test_the_general_rules_come_before_what_may_change():
    new = with_value(OLD, f"{CLIQUES}[0].spec.roleName", "other")
    assert changes(with_value(new, f"{CLIQUES}[0].spec.replicas", 1)) == [
        f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must not be greater than replicas (1)"
    ]


def test_a_set_from_before_the_defaults_is_compared_with_them():
    old = pod_clique_set(clique("a", 2))
    assert changes(defaulted(with_value(old, "spec.replicas", 3)), old) == []


def test_a_set_that_breaks_a_rule_can_still_be_let_go():
    broken = pod_clique_set(clique("a"), clique("a"), name="A.b")
    finalized = with_value(broken, "metadata.finalizers", ["grove.io/podcliqueset.grove.io"])
    assert changes(defaulted(broken), finalized) == []
    (problem,) = changes(with_value(defaulted(broken), "spec.replicas", "x"), finalized)
    assert problem.startswith('spec.replicas: Invalid value: "x"')


def test_a_set_that_nothing_can_be_made_of_can_be_mended():
    old = with_value(OLD, f"{CLIQUES}[0].spec.roleName", 3)
    assert changes(OLD, old) == []


def test_who_changes_how_many_there_are_to_begin_with_is_told_so() -> None:
    new = with_value(with_value(OLD, f"{CLIQUES}[0].spec.replicas", 5), f"{GROUPS}[0].replicas", 3)
    found = validate_update(OLD, new, Context())
    assert found.problems == ()
    assert found.warnings == (
        f"{CLIQUES}[0].spec.replicas: counts for what is made from now on; "
        "`kubectl scale podclique` what is there",
        f"{GROUPS}[0].replicas: counts for what is made from now on; "
        "`kubectl scale podcliquescalinggroup` what is there",
    )
    assert validate_update(OLD, with_value(OLD, "spec.replicas", 4), Context()).warnings == ()

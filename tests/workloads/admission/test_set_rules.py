"""Rules for amounts, the order of starting, and the life of a set (2, 3, 9 to 11, 13, 14, ours)."""

import pytest

from kilonova.workloads.admission import Context, defaulted, validate_create
from tests.workloads.admission.rules import (
    CLIQUES,
    EXPLICIT,
    FULL,
    GROUPS,
    LABEL_RULE,
    changed,
    found,
)
from tests.workloads.admission.written import JsonObject, clique, group, pod_clique_set, with_value

NAMED = {
    "initContainers": [{"name": "grove-initc", "image": "i"}],
    "containers": [{"name": "main", "image": "i"}, {"name": "grove-initc", "image": "i"}],
    "volumes": [{"name": "pod-info-vol", "emptyDir": {}}],
}
"""As what the operator adds to pods that wait."""
OURS = "is added by the operator where cliques start after others: rename it"


def test_a_set_with_everything_in_it_is_valid() -> None:
    full = with_value(FULL, "spec.updateStrategy.rollingUpdate", {"maxSurge": 1, "coherent": True})
    findings = validate_create(defaulted(full), Context())
    assert findings.problems == ()
    assert findings.warnings == ()


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 2: replicas
        (
            changed("spec.replicas", -1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        # 3: the startup type
        (
            changed("spec.template.cliqueStartupType", "Alphabetical"),
            [
                'spec.template.cliqueStartupType: Unsupported value: "Alphabetical": supported '
                'values: "CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", '
                '"CliqueStartupTypeExplicit"'
            ],
        ),
        # 9: how many
        (
            changed(f"{CLIQUES}[3].spec.replicas", -1),
            [f"{CLIQUES}[3].spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            changed(f"{CLIQUES}[3].spec.minAvailable", 0),
            [f"{CLIQUES}[3].spec.minAvailable: Invalid value: 0: must be greater than 0"],
        ),
        (
            changed(f"{CLIQUES}[2].spec.minAvailable", 5),
            [
                f"{CLIQUES}[2].spec.minAvailable: Invalid value: 5: must not be greater than "
                "replicas (3)"
            ],
        ),
        # 10: the order of starting
        (
            changed(f"{CLIQUES}[1].spec.startsAfter", ["", "leader", "nobody", "router", "router"]),
            [
                f"{CLIQUES}[1].spec.startsAfter[0]: Required value: must be the name of a clique",
                f'{CLIQUES}[1].spec.startsAfter[1]: Invalid value: "leader": a clique cannot '
                "start after itself",
                f'{CLIQUES}[1].spec.startsAfter[2]: Not found: "nobody": must be the name of a '
                "clique of this set",
                f'{CLIQUES}[1].spec.startsAfter[4]: Duplicate value: "router"',
            ],
        ),
        (
            changed(f"{CLIQUES}[1].spec.podSpec", NAMED),
            [
                f'{CLIQUES}[1].spec.podSpec.{place}.name: Invalid value: "{name}": {OURS}'
                for place, name in (
                    ("initContainers[0]", "grove-initc"),
                    ("containers[1]", "grove-initc"),
                    ("volumes[0]", "pod-info-vol"),
                )
            ],
        ),
        (changed(f"{CLIQUES}[0].spec.podSpec", NAMED), []),
        (
            changed(f"{CLIQUES}[0].spec.startsAfter", ["worker"]),
            [
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: "worker": cliques must not wait '
                "for each other in a circle: router → worker → leader → router"
            ],
        ),
        (
            pod_clique_set(
                clique("a", startsAfter=["b"]),
                clique("b", startsAfter=["a"]),
                clique("c", startsAfter=["d", "a"]),
                clique("d", startsAfter=["c"]),
                **EXPLICIT,
            ),
            [
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: "b": cliques must not wait for '
                "each other in a circle: a → b → a",
                f'{CLIQUES}[2].spec.startsAfter: Invalid value: "d": cliques must not wait for '
                "each other in a circle: c → d → c",
            ],
        ),
        # 11: autoscaling of cliques
        (
            changed(f"{CLIQUES}[0].spec.autoScalingConfig", {"minReplicas": 0, "maxReplicas": 2}),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 0: must be at "
                "least minAvailable (1)"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.autoScalingConfig", {"minReplicas": 3, "maxReplicas": 1}),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 1: must be at "
                "least minReplicas (3)",
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 1: must be at "
                "least replicas (2)",
            ],
        ),
        (
            changed(f"{CLIQUES}[1].spec.autoScalingConfig", {"maxReplicas": 2}),
            [
                f"{CLIQUES}[1].spec.autoScalingConfig: Forbidden: the clique is scaled with its "
                'scaling group "engine"'
            ],
        ),
        # 13: scaling groups
        (
            changed(f"{GROUPS}[0].name", "En_gine"),
            [
                f'{GROUPS}[0].name: Invalid value: "En_gine": {LABEL_RULE}',
                "spec.template.resourceSharing[0].filter.childScalingGroupNames[0]: Not found: "
                '"engine": must be a scaling group of this set',
            ],
        ),
        (
            pod_clique_set(
                clique("a"), clique("b"), groups=(group("g", "a", "b"), group("g", "b", "c"))
            ),
            [
                f'{GROUPS}[1].name: Duplicate value: "g"',
                f'{GROUPS}[1].cliqueNames[0]: Duplicate value: "b": is in scaling group "g" '
                "already",
                f'{GROUPS}[1].cliqueNames[1]: Not found: "c": must be the name of a clique of '
                "this set",
            ],
        ),
        (
            pod_clique_set(groups=(group("g"),)),
            [f"{GROUPS}[0].cliqueNames: Required value: a scaling group has cliques"],
        ),
        (
            changed(f"{GROUPS}[0].replicas", 0),
            [
                f"{GROUPS}[0].replicas: Invalid value: 0: must be greater than 0",
                f"{GROUPS}[0].minAvailable: Invalid value: 1: must not be greater than "
                "replicas (0)",
                f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 0: must be at least "
                "minAvailable (1)",
            ],
        ),
        (
            changed(f"{GROUPS}[0].minAvailable", 3),
            [
                f"{GROUPS}[0].minAvailable: Invalid value: 3: must not be greater than "
                "replicas (2)",
                f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 2: must be at least "
                "minAvailable (3)",
            ],
        ),
        (
            changed(f"{GROUPS}[0].scaleConfig.maxReplicas", 1),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 1: must be at least "
                "minReplicas (2)"
            ],
        ),
        # Ours: how much a set may come to
        (
            changed("spec.replicas", 2_000_000_000),
            [
                "spec.replicas: Invalid value: 2000000000: comes to 22000000000 pods, more than "
                f"100000: lower one of spec.replicas (2000000000) × {GROUPS}[0].replicas (2) × "
                f"{CLIQUES}[2].spec.replicas (3)"
            ],
        ),
        (
            with_value(changed("spec.replicas", 0), f"{GROUPS}[0].replicas", 2_000_000_000),
            [
                f"{GROUPS}[0].replicas: Invalid value: 2000000000: comes to 8000000003 pods, more "
                f"than 100000: lower one of {GROUPS}[0].replicas (2000000000) × "
                f"{CLIQUES}[2].spec.replicas (3)"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas", 2_000_000_000),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2000000000: a "
                "replica of the set would come to 2000000009 pods, more than 100000: lower it"
            ],
        ),
        (changed(f"{GROUPS}[0].scaleConfig.maxReplicas", 3000), []),
        (
            changed(f"{GROUPS}[0].scaleConfig.maxReplicas", 50_000),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 50000: a replica of the set "
                "would come to 200003 pods, more than 100000: lower it"
            ],
        ),
        (
            changed(f"{GROUPS}[0].scaleConfig.maxReplicas", 4000),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 4000: a replica of the set "
                "would come to 12007 objects beside its pods, more than 10000: lower it"
            ],
        ),
        (pod_clique_set(*(clique(f"c{each}") for each in range(256))), []),
        (
            pod_clique_set(*(clique(f"c{each}") for each in range(10_000))),
            [f"{CLIQUES}: Invalid value: 10000: a set has at most 256: make several sets of it"],
        ),
        # 14: the termination delay
        (
            changed("spec.template.terminationDelay", "0s"),
            ['spec.template.terminationDelay: Invalid value: "0s": must be greater than 0'],
        ),
        (
            changed("spec.template.terminationDelay", "soon"),
            [
                'spec.template.terminationDelay: Invalid value: "soon": must be a duration, such '
                "as 90s, 1h30m or 4h"
            ],
        ),
        # Ours: how fast an update goes, and what becomes of a set that is done
        (
            changed("spec.updateStrategy.type", "Whenever"),
            [
                'spec.updateStrategy.type: Unsupported value: "Whenever": supported values: '
                '"RollingRecreate", "OnDelete"'
            ],
        ),
        (
            changed(
                "spec.updateStrategy.rollingUpdate", {"maxUnavailable": "many", "maxSurge": -1}
            ),
            [
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "
                '"many": must be a number or a percentage, such as 2 or 25%',
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater "
                "than or equal to 0",
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.rollingUpdate", {"maxUnavailable": "101%"}),
            [
                f'{CLIQUES}[0].spec.rollingUpdate.maxUnavailable: Invalid value: "101%": must not '
                "be greater than 100%"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.rollingUpdate", {"maxUnavailable": "0%", "maxSurge": 0}),
            [
                f'{CLIQUES}[0].spec.rollingUpdate.maxUnavailable: Invalid value: "0%": must not '
                "be 0 where maxSurge is 0: nothing could ever be replaced"
            ],
        ),
        (
            changed(f"{GROUPS}[0].rollingUpdate.progressDeadline", "-1m"),
            [
                f'{GROUPS}[0].rollingUpdate.progressDeadline: Invalid value: "-1m": must be '
                "greater than 0"
            ],
        ),
        (
            changed("spec.template.backoffLimit", -1),
            ["spec.template.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            changed("spec.template.ttlSecondsAfterFinished", -5),
            [
                "spec.template.ttlSecondsAfterFinished: Invalid value: -5: must be greater than or "
                "equal to 0"
            ],
        ),
        # What a schema would have refused
        (
            changed(f"{CLIQUES}[0].spec.replicas", "two"),
            [f'{CLIQUES}[0].spec.replicas: Invalid value: "two": expected `int`, got `str`'],
        ),
        (
            changed(f"{CLIQUES}[0].spec.podSpec", None),
            [f"{CLIQUES}[0].spec.podSpec: Required value: must be set"],
        ),
    ],
)
def test_a_broken_rule_is_refused_with_field_value_and_rule(
    obj: JsonObject, problems: list[str]
) -> None:
    assert found(obj) == problems


def test_what_nobody_has_filled_in_must_be_there() -> None:
    problems = validate_create(pod_clique_set(clique("a", 0)), Context()).problems
    assert [f"{each.field}: {each.message}" for each in problems] == [
        f"{CLIQUES}[0].spec.replicas: Invalid value: 0: must be greater than 0",
        f"{CLIQUES}[0].spec.minAvailable: Required value: must be set",
        "spec.template.terminationDelay: Required value: must be set",
    ]


def test_an_order_counts_only_where_it_is_explicit() -> None:
    written = pod_clique_set(clique("a", startsAfter=["a", "nobody"]))
    findings = validate_create(defaulted(written), Context())
    assert findings.problems == ()
    assert findings.warnings == (
        f"{CLIQUES}[0].spec.startsAfter: has no effect unless cliqueStartupType is "
        "CliqueStartupTypeExplicit",
    )


def test_the_pace_of_a_member_is_that_of_its_group() -> None:
    written = with_value(FULL, f"{CLIQUES}[1].spec.rollingUpdate", {"maxUnavailable": 2})
    findings = validate_create(defaulted(written), Context())
    assert findings.problems == ()
    assert findings.warnings == (
        f"{CLIQUES}[1].spec.rollingUpdate: has no effect on a clique of a scaling group; "
        "set it on the group",
    )

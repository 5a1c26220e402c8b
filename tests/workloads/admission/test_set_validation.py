"""Rules for counts, startup order and lifecycle of a set (2, 3, 9 to 11, 13, 14, ours)."""

import pytest

from kilonova.workloads.admission import ValidationContext, apply_defaults, validate_create
from tests.workloads.admission.full_set import (
    CLIQUES,
    EXPLICIT,
    FULL,
    GROUPS,
    LABEL_RULE,
    validate_object,
    with_changed_field,
)
from tests.workloads.admission.set_manifests import (
    JsonObject,
    clique,
    group,
    pod_clique_set,
    set_field,
)

NAMED = {
    "initContainers": [{"name": "grove-initc", "image": "i"}],
    "containers": [{"name": "main", "image": "i"}, {"name": "grove-initc", "image": "i"}],
    "volumes": [{"name": "pod-info-vol", "emptyDir": {}}],
}
"""As what the operator adds to pods that wait."""
RESERVED_NAME_RULE = "is reserved for the operator in cliques with startup dependencies: rename it"


def test_full_set_is_valid() -> None:
    full = set_field(FULL, "spec.updateStrategy.rollingUpdate", {"maxSurge": 1, "coherent": True})
    result = validate_create(apply_defaults(full), ValidationContext())
    assert result.errors == ()
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 2: replicas
        (
            with_changed_field("spec.replicas", -1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        # 3: the startup type
        (
            with_changed_field("spec.template.cliqueStartupType", "Alphabetical"),
            [
                'spec.template.cliqueStartupType: Unsupported value: "Alphabetical": supported '
                'values: "CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", '
                '"CliqueStartupTypeExplicit"'
            ],
        ),
        # 9: replica counts
        (
            with_changed_field(f"{CLIQUES}[3].spec.replicas", -1),
            [f"{CLIQUES}[3].spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            with_changed_field(f"{CLIQUES}[3].spec.minAvailable", 0),
            [f"{CLIQUES}[3].spec.minAvailable: Invalid value: 0: must be greater than 0"],
        ),
        (
            with_changed_field(f"{CLIQUES}[2].spec.minAvailable", 5),
            [
                f"{CLIQUES}[2].spec.minAvailable: Invalid value: 5: must not be greater than "
                "replicas (3)"
            ],
        ),
        # 10: startup order
        (
            with_changed_field(
                f"{CLIQUES}[1].spec.startsAfter", ["", "leader", "nobody", "router", "router"]
            ),
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
            with_changed_field(f"{CLIQUES}[1].spec.podSpec", NAMED),
            [
                f'{CLIQUES}[1].spec.podSpec.{place}.name: Invalid value: "{name}": '
                f"{RESERVED_NAME_RULE}"
                for place, name in (
                    ("initContainers[0]", "grove-initc"),
                    ("containers[1]", "grove-initc"),
                    ("volumes[0]", "pod-info-vol"),
                )
            ],
        ),
        (with_changed_field(f"{CLIQUES}[0].spec.podSpec", NAMED), []),
        (
            with_changed_field(f"{CLIQUES}[0].spec.startsAfter", ["worker"]),
            [
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: "worker": startup '
                "dependencies must not form a cycle: router → worker → leader → router"
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
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: "b": startup dependencies '
                "must not form a cycle: a → b → a",
                f'{CLIQUES}[2].spec.startsAfter: Invalid value: "d": startup dependencies '
                "must not form a cycle: c → d → c",
            ],
        ),
        # 11: autoscaling of cliques
        (
            with_changed_field(
                f"{CLIQUES}[0].spec.autoScalingConfig", {"minReplicas": 0, "maxReplicas": 2}
            ),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 0: must be at "
                "least minAvailable (1)"
            ],
        ),
        (
            with_changed_field(
                f"{CLIQUES}[0].spec.autoScalingConfig", {"minReplicas": 3, "maxReplicas": 1}
            ),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 1: must be at "
                "least minReplicas (3)",
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 1: must be at "
                "least replicas (2)",
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[1].spec.autoScalingConfig", {"maxReplicas": 2}),
            [
                f"{CLIQUES}[1].spec.autoScalingConfig: Forbidden: the clique is scaled by its "
                'scaling group "engine"'
            ],
        ),
        # 13: scaling groups
        (
            with_changed_field(f"{GROUPS}[0].name", "En_gine"),
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
                f'{GROUPS}[1].cliqueNames[0]: Duplicate value: "b": is already in scaling '
                'group "g"',
                f'{GROUPS}[1].cliqueNames[1]: Not found: "c": must be the name of a clique of '
                "this set",
            ],
        ),
        (
            pod_clique_set(groups=(group("g"),)),
            [f"{GROUPS}[0].cliqueNames: Required value: at least one clique is needed"],
        ),
        (
            with_changed_field(f"{GROUPS}[0].replicas", 0),
            [
                f"{GROUPS}[0].replicas: Invalid value: 0: must be greater than 0",
                f"{GROUPS}[0].minAvailable: Invalid value: 1: must not be greater than "
                "replicas (0)",
                f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 0: must be at least "
                "minAvailable (1)",
            ],
        ),
        (
            with_changed_field(f"{GROUPS}[0].minAvailable", 3),
            [
                f"{GROUPS}[0].minAvailable: Invalid value: 3: must not be greater than "
                "replicas (2)",
                f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 2: must be at least "
                "minAvailable (3)",
            ],
        ),
        (
            with_changed_field(f"{GROUPS}[0].scaleConfig.maxReplicas", 1),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 1: must be at least "
                "minReplicas (2)"
            ],
        ),
        # Ours: limits of a set
        (
            with_changed_field("spec.replicas", 2_000_000_000),
            [
                "spec.replicas: Invalid value: 2000000000: results in 22000000000 pods, and the "
                "limit is 100000; reduce one of spec.replicas (2000000000) × "
                f"{GROUPS}[0].replicas (2) × "
                f"{CLIQUES}[2].spec.replicas (3)"
            ],
        ),
        (
            set_field(
                with_changed_field("spec.replicas", 0), f"{GROUPS}[0].replicas", 2_000_000_000
            ),
            [
                f"{GROUPS}[0].replicas: Invalid value: 2000000000: results in 8000000003 pods, and "
                f"the limit is 100000; reduce one of {GROUPS}[0].replicas (2000000000) × "
                f"{CLIQUES}[2].spec.replicas (3)"
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas", 2_000_000_000),
            [
                f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2000000000: "
                "results in 2000000009 pods, and the limit is 100000 per replica; reduce it"
            ],
        ),
        (with_changed_field(f"{GROUPS}[0].scaleConfig.maxReplicas", 3000), []),
        (
            with_changed_field(f"{GROUPS}[0].scaleConfig.maxReplicas", 50_000),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 50000: "
                "results in 200003 pods, and the limit is 100000 per replica; reduce it"
            ],
        ),
        (
            with_changed_field(f"{GROUPS}[0].scaleConfig.maxReplicas", 4000),
            [
                f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 4000: results in "
                "12007 objects other than pods, and the limit is 10000 per replica; reduce it"
            ],
        ),
        (pod_clique_set(*(clique(f"c{each}") for each in range(256))), []),
        (
            pod_clique_set(*(clique(f"c{each}") for each in range(10_000))),
            [
                f"{CLIQUES}: Invalid value: 10000: a PodCliqueSet has at most 256; split it into "
                "several"
            ],
        ),
        # 14: the termination delay
        (
            with_changed_field("spec.template.terminationDelay", "0s"),
            ['spec.template.terminationDelay: Invalid value: "0s": must be greater than 0'],
        ),
        (
            with_changed_field("spec.template.terminationDelay", "soon"),
            [
                'spec.template.terminationDelay: Invalid value: "soon": must be a duration, such '
                "as 90s, 1h30m or 4h"
            ],
        ),
        # Ours: update strategy and finished sets
        (
            with_changed_field("spec.updateStrategy.type", "Whenever"),
            [
                'spec.updateStrategy.type: Unsupported value: "Whenever": supported values: '
                '"RollingRecreate", "OnDelete"'
            ],
        ),
        (
            with_changed_field(
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
            with_changed_field(f"{CLIQUES}[0].spec.rollingUpdate", {"maxUnavailable": "101%"}),
            [
                f'{CLIQUES}[0].spec.rollingUpdate.maxUnavailable: Invalid value: "101%": must not '
                "be greater than 100%"
            ],
        ),
        (
            with_changed_field(
                f"{CLIQUES}[0].spec.rollingUpdate", {"maxUnavailable": "0%", "maxSurge": 0}
            ),
            [
                f'{CLIQUES}[0].spec.rollingUpdate.maxUnavailable: Invalid value: "0%": must not '
                "be 0 if maxSurge is 0: no pod could be replaced"
            ],
        ),
        (
            with_changed_field(f"{GROUPS}[0].rollingUpdate.progressDeadline", "-1m"),
            [
                f'{GROUPS}[0].rollingUpdate.progressDeadline: Invalid value: "-1m": must be '
                "greater than 0"
            ],
        ),
        (
            with_changed_field("spec.template.backoffLimit", -1),
            ["spec.template.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            with_changed_field("spec.template.ttlSecondsAfterFinished", -5),
            [
                "spec.template.ttlSecondsAfterFinished: Invalid value: -5: must be greater than or "
                "equal to 0"
            ],
        ),
        # Errors that a schema would have found
        (
            with_changed_field(f"{CLIQUES}[0].spec.replicas", "two"),
            [f'{CLIQUES}[0].spec.replicas: Invalid value: "two": expected `int`, got `str`'],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].spec.podSpec", None),
            [f"{CLIQUES}[0].spec.podSpec: Required value: must be set"],
        ),
    ],
)
def test_violated_rule_is_rejected_with_field_value_and_rule(
    obj: JsonObject, problems: list[str]
) -> None:
    assert validate_object(obj) == problems


def test_required_fields_must_be_set() -> None:
    problems = validate_create(pod_clique_set(clique("a", 0)), ValidationContext()).errors
    assert [f"{each.field}: {each.message}" for each in problems] == [
        f"{CLIQUES}[0].spec.replicas: Invalid value: 0: must be greater than 0",
        f"{CLIQUES}[0].spec.minAvailable: Required value: must be set",
        "spec.template.terminationDelay: Required value: must be set",
    ]


def test_starts_after_has_effect_only_with_explicit_order() -> None:
    written = pod_clique_set(clique("a", startsAfter=["a", "nobody"]))
    result = validate_create(apply_defaults(written), ValidationContext())
    assert result.errors == ()
    assert result.warnings == (
        f"{CLIQUES}[0].spec.startsAfter: has no effect unless cliqueStartupType is "
        "CliqueStartupTypeExplicit",
    )


def test_rolling_update_of_a_group_member_has_no_effect() -> None:
    written = set_field(FULL, f"{CLIQUES}[1].spec.rollingUpdate", {"maxUnavailable": 2})
    result = validate_create(apply_defaults(written), ValidationContext())
    assert result.errors == ()
    assert result.warnings == (
        f"{CLIQUES}[1].spec.rollingUpdate: has no effect on a clique of a scaling group; "
        "set it on the group",
    )

"""Every rule for sets: a row that breaks it, with the words it is refused with."""

from typing import Any

import pytest

from kilonova.workloads.admission import Context, defaulted, validate_create, validate_update
from kilonova.workloads.settings import Settings
from tests.workloads.admission.written import clique, group, pod_clique_set, with_value

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
EXPLICIT = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
LABEL_RULE = (
    "must consist of lower case letters, digits or '-', and start and end with a letter or digit "
    "(regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
RESERVED = "keys that begin with grove.io/ are the operator's own: remove it"
LONG = "n" * 40
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def claim_template(name: str, spec: Any = REQUESTS) -> dict[str, Any]:
    return {"name": name, "templateSpec": {"spec": spec}}


def shared(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "scope": "AllReplicas", **more}


NAMED = {
    "initContainers": [{"name": "grove-initc", "image": "i"}],
    "containers": [{"name": "main", "image": "i"}, {"name": "grove-initc", "image": "i"}],
    "volumes": [{"name": "pod-info-vol", "emptyDir": {}}],
}
"""As what the operator adds to pods that wait."""
OURS = "is added by the operator where cliques start after others: rename it"


def found(obj: dict[str, Any], settings: Settings | None = None) -> list[str]:
    findings = validate_create(defaulted(obj), Context(settings or Settings()))
    return [f"{each.field}: {each.message}" for each in findings.problems]


FULL = pod_clique_set(
    clique("router", 2, minAvailable=1, autoScalingConfig={"maxReplicas": 4}),
    clique("leader", startsAfter=["router"]),
    clique("worker", 3, minAvailable=2, startsAfter=["leader", "router"]),
    # Names that end in, or begin with, each other are as good as any.
    clique("leader-worker"),
    groups=(
        group(
            "engine",
            "leader",
            "worker",
            replicas=2,
            scaleConfig={"maxReplicas": 5},
            resourceSharing=[shared("gpus", filter={"childCliqueNames": ["worker"]})],
            rollingUpdate={"maxUnavailable": "50%", "progressDeadline": "10m"},
        ),
    ),
    resourceClaimTemplates=[claim_template("gpus")],
    resourceSharing=[
        shared("gpus", filter={"childScalingGroupNames": ["engine"]}),
        shared("external", namespace="elsewhere"),
    ],
    backoffLimit=0,
    ttlSecondsAfterFinished=0,
    **EXPLICIT,
)


def test_a_set_with_everything_in_it_is_valid():
    full = with_value(FULL, "spec.updateStrategy.rollingUpdate", {"maxSurge": 1, "coherent": True})
    findings = validate_create(defaulted(full), Context())
    assert findings.problems == ()
    assert findings.warnings == ()


def changed(path: str, value: Any) -> dict[str, Any]:
    return with_value(FULL, path, value)


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 1: the name
        (
            pod_clique_set(name="Set_1"),
            [f'metadata.name: Invalid value: "Set_1": {LABEL_RULE}'],
        ),
        (
            pod_clique_set(name="a.set"),
            [
                'metadata.name: Invalid value: "a.set": must not contain dots: host names and '
                "Services are made from it"
            ],
        ),
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
        # 6: cliques
        (
            changed(CLIQUES, []),
            [
                f"{CLIQUES}: Required value: a set has at least one clique",
                *(
                    f'{GROUPS}[0].cliqueNames[{place}]: Not found: "{name}": must be the name of '
                    "a clique of this set"
                    for place, name in enumerate(("leader", "worker"))
                ),
            ],
        ),
        (
            pod_clique_set(clique("")),
            [f"{CLIQUES}[0].name: Required value: must not be empty"],
        ),
        (
            pod_clique_set(clique("Not-good")),
            [f'{CLIQUES}[0].name: Invalid value: "Not-good": {LABEL_RULE}'],
        ),
        (
            pod_clique_set(clique("a"), clique("a", roleName="other")),
            [f'{CLIQUES}[1].name: Duplicate value: "a"'],
        ),
        (
            pod_clique_set(clique("a", roleName="r"), clique("b", roleName="r")),
            [f'{CLIQUES}[1].spec.roleName: Duplicate value: "r"'],
        ),
        (
            changed(f"{CLIQUES}[0].labels", {"good": "b/d"}),
            [
                f'{CLIQUES}[0].labels: Invalid value: "b/d": must be empty, or up to 63 letters, '
                "digits, '-', '_' or '.' that start and end with a letter or digit"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].annotations", {"-bad": "anything"}),
            [
                f'{CLIQUES}[0].annotations: Invalid value: "-bad": name part must be 1 to 63 '
                "letters, digits, '-', '_' or '.', and start and end with a letter or digit"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].labels", {"grove.io/base-podgang": "x"}),
            [f'{CLIQUES}[0].labels: Invalid value: "grove.io/base-podgang": {RESERVED}'],
        ),
        (
            changed(f"{CLIQUES}[0].annotations", {"grove.io/incarnation": "5"}),
            [f'{CLIQUES}[0].annotations: Invalid value: "grove.io/incarnation": {RESERVED}'],
        ),
        (
            changed(f"{CLIQUES}[0].annotations", {"big": "x" * 262144}),
            [f"{CLIQUES}[0].annotations: Too long: may not be more than 262144 bytes"],
        ),
        # 7: lengths
        (
            pod_clique_set(clique("abcdef"), name=LONG),
            [
                f'{path}: Invalid value: "{name}": must be at most 45 characters together with '
                f'what pods are named by: "{LONG}" + "abcdef" has 46'
                for path, name in (("metadata.name", LONG), (f"{CLIQUES}[0].name", "abcdef"))
            ],
        ),
        (
            pod_clique_set(clique("abc"), groups=(group("def", "abc"),), name=LONG),
            [
                f'{path}: Invalid value: "{name}": must be at most 45 characters together with '
                f'what pods are named by: "{LONG}" + "def" + "abc" has 46'
                for path, name in (
                    ("metadata.name", LONG),
                    (f"{GROUPS}[0].name", "def"),
                    (f"{CLIQUES}[0].name", "abc"),
                )
            ],
        ),
        # 8: schedulers
        (
            changed(f"{CLIQUES}[1].spec.podSpec.schedulerName", "kilonova"),
            [
                f'{CLIQUES}[1].spec.podSpec.schedulerName: Invalid value: "kilonova": must be the '
                'same for all cliques; the first has "default-scheduler"'
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.podSpec.schedulerName", "nobody"),
            [
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Unsupported value: "nobody": supported '
                'values: "default-scheduler", "kai-scheduler", "kilonova"',
                *(
                    f"{CLIQUES}[{index}].spec.podSpec.schedulerName: Invalid value: "
                    '"default-scheduler": must be the same for all cliques; the first has "nobody"'
                    for index in (1, 2, 3)
                ),
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
        # 12: pods
        (
            changed(f"{CLIQUES}[0].spec.podSpec.nodeName", "n1"),
            [
                f"{CLIQUES}[0].spec.podSpec.nodeName: Forbidden: must not be set: the scheduler "
                "finds nodes for the whole gang"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints", [{"maxSkew": 1}]),
            [
                f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints: Forbidden: must not be "
                "set: use topologyConstraint, which gangs are placed by"
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.podSpec.restartPolicy", "Sometimes"),
            [
                f'{CLIQUES}[0].spec.podSpec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"'
            ],
        ),
        (
            changed(
                f"{CLIQUES}[0].spec.podSpec.containers[0].env",
                [{"name": "A"}, {"name": "A"}, {"name": "B=C"}],
            ),
            [
                f'{CLIQUES}[0].spec.podSpec.containers[0].env[1].name: Duplicate value: "A"',
                f'{CLIQUES}[0].spec.podSpec.containers[0].env[2].name: Invalid value: "B=C": '
                "must be printable ASCII characters other than '=', at least one",
            ],
        ),
        (
            changed(
                f"{CLIQUES}[0].spec.podSpec.initContainers",
                [{"name": "i", "env": [{"name": ""}]}],
            ),
            [
                f'{CLIQUES}[0].spec.podSpec.initContainers[0].env[0].name: Invalid value: "": '
                "must be printable ASCII characters other than '=', at least one"
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
        # 15: multi-node NVLink
        (
            changed("metadata.annotations", {"grove.io/mnnvl-group": "pair"}),
            [
                'metadata.annotations[grove.io/mnnvl-group]: Invalid value: "pair": multi-node '
                'NVLink is off in this cluster; only "none" is allowed'
            ],
        ),
        (
            changed(f"{GROUPS}[0].annotations", {"grove.io/mnnvl-group": "A"}),
            [
                f'{GROUPS}[0].annotations[grove.io/mnnvl-group]: Invalid value: "A": must be '
                f'"none" or the name of a group, {LABEL_RULE}'
            ],
        ),
        # 16: what a scheduler wants
        (
            pod_clique_set(with_value(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler")),
            [
                "metadata.labels[kai.scheduler/queue]: Required value: kai-scheduler wants to "
                "know the queue of a set"
            ],
        ),
        (
            with_value(
                pod_clique_set(
                    {
                        **with_value(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler"),
                        "annotations": {"kai.scheduler/queue": "y"},
                    }
                ),
                "metadata.labels",
                {"kai.scheduler/queue": "x"},
            ),
            [
                f'{CLIQUES}[0].annotations[kai.scheduler/queue]: Invalid value: "y": must be the '
                'same everywhere; metadata.labels[kai.scheduler/queue] is "x"'
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
            changed(f"{CLIQUES}[0].spec.roleName", None),
            [f"{CLIQUES}[0].spec.roleName: Required value: must be set"],
        ),
    ],
)
def test_a_broken_rule_is_refused_with_field_value_and_rule(obj, problems):
    assert found(obj) == problems


def test_what_nobody_has_filled_in_must_be_there():
    problems = validate_create(pod_clique_set(clique("a", 0)), Context()).problems
    assert [f"{each.field}: {each.message}" for each in problems] == [
        f"{CLIQUES}[0].spec.replicas: Invalid value: 0: must be greater than 0",
        f"{CLIQUES}[0].spec.minAvailable: Required value: must be set",
        "spec.template.terminationDelay: Required value: must be set",
    ]


def test_an_order_counts_only_where_it_is_explicit():
    written = pod_clique_set(clique("a", startsAfter=["a", "nobody"]))
    findings = validate_create(defaulted(written), Context())
    assert findings.problems == ()
    assert findings.warnings == (
        f"{CLIQUES}[0].spec.startsAfter: has no effect unless cliqueStartupType is "
        "CliqueStartupTypeExplicit",
    )


def test_the_pace_of_a_member_is_that_of_its_group():
    written = with_value(FULL, f"{CLIQUES}[1].spec.rollingUpdate", {"maxUnavailable": 2})
    findings = validate_create(defaulted(written), Context())
    assert findings.problems == ()
    assert findings.warnings == (
        f"{CLIQUES}[1].spec.rollingUpdate: has no effect on a clique of a scaling group; "
        "set it on the group",
    )


@pytest.mark.parametrize("value", ["none", "pair"])
def test_nvlink_groups_are_taken_where_nvlink_is_on(value):
    written = with_value(FULL, f"{CLIQUES}[0].annotations", {"grove.io/mnnvl-group": value})
    assert found(written, Settings(mnnvl=True)) == []


@pytest.mark.parametrize("where", ["metadata.labels", f"{CLIQUES}[0].labels"])
def test_a_queue_may_be_named_by_the_set_or_a_clique(where):
    kai = with_value(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler")
    assert found(with_value(pod_clique_set(kai), where, {"kai.scheduler/queue": "x"})) == []


@pytest.mark.parametrize("scheduler", ["volcano", "lpx-scheduler"])
def test_a_scheduler_without_topologies_is_given_no_constraints(scheduler):
    plain = with_value(clique("a"), "spec.podSpec.schedulerName", scheduler)
    packed = {**plain, "topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}
    settings = Settings(schedulers=("default-scheduler", scheduler))
    context = Context(settings, {"t": ("rack",)})
    assert validate_create(defaulted(pod_clique_set(plain)), context).problems == ()
    (problem,) = validate_create(defaulted(pod_clique_set(packed)), context).problems
    assert (problem.field, problem.message) == (
        f"{CLIQUES}[0].topologyConstraint",
        f"Forbidden: {scheduler} knows no topology constraints",
    )


def test_queues_of_volcano_agree():
    volcano = with_value(clique("a"), "spec.podSpec.schedulerName", "volcano")
    key = "scheduling.grove.io/volcano-queue"
    written = pod_clique_set({**volcano, "annotations": {key: "b"}})
    settings = Settings(schedulers=("volcano",))
    assert found(written, settings) == []
    assert found(with_value(written, "metadata.annotations", {key: "c"}), settings) == [
        f'{CLIQUES}[0].annotations[{key}]: Invalid value: "b": must be the same everywhere; '
        f'metadata.annotations[{key}] is "c"'
    ]


def test_pods_may_name_a_node_once_the_set_exists():
    old = defaulted(FULL)
    new = with_value(old, f"{CLIQUES}[0].spec.podSpec.nodeName", "n1")
    assert validate_update(old, new, Context()).problems == ()


def test_names_that_two_objects_would_share_are_refused() -> None:
    clashing = pod_clique_set(clique("a-0-b"), clique("b"), groups=(group("a", "b"),))
    assert found(clashing) == [
        "spec.template: Invalid value: clique a-0-b and clique b of scaling group a would come to "
        "share the name of a PodClique: rename one of them"
    ]

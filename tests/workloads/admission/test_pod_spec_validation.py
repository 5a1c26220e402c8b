"""Rules for pod specs, schedulers and NVLink groups (8, 12, 15 and 16)."""

import pytest

from kilonova.workloads.admission import (
    ValidationContext,
    apply_defaults,
    validate_create,
    validate_update,
)
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.admission.full_set import (
    CLIQUES,
    FULL,
    GROUPS,
    LABEL_RULE,
    validate_object,
    with_changed_field,
)
from tests.workloads.admission.set_manifests import JsonObject, clique, pod_clique_set, set_field


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 8: schedulers
        (
            with_changed_field(f"{CLIQUES}[1].spec.podSpec.schedulerName", "kilonova-scheduler"),
            [
                f'{CLIQUES}[1].spec.podSpec.schedulerName: Invalid value: "kilonova-scheduler": '
                'must be the same for all cliques; the first clique has "default-scheduler"'
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].spec.podSpec.schedulerName", "nobody"),
            [
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Unsupported value: "nobody": supported '
                'values: "default-scheduler", "kilonova-scheduler"',
                *(
                    f"{CLIQUES}[{index}].spec.podSpec.schedulerName: Invalid value: "
                    '"default-scheduler": must be the same for all cliques; the first clique has '
                    '"nobody"'
                    for index in (1, 2, 3)
                ),
            ],
        ),
        # 12: pods
        (
            with_changed_field(f"{CLIQUES}[0].spec.podSpec.nodeName", "n1"),
            [
                f"{CLIQUES}[0].spec.podSpec.nodeName: Forbidden: must not be set: the scheduler "
                "selects nodes for the whole gang"
            ],
        ),
        (
            with_changed_field(
                f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints", [{"maxSkew": 1}]
            ),
            [
                f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints: Forbidden: must not be "
                "set: use topologyConstraint, which applies to the whole gang"
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].spec.podSpec.restartPolicy", "Sometimes"),
            [
                f'{CLIQUES}[0].spec.podSpec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"'
            ],
        ),
        (
            with_changed_field(
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
            with_changed_field(
                f"{CLIQUES}[0].spec.podSpec.initContainers",
                [{"name": "i", "env": [{"name": ""}]}],
            ),
            [
                f'{CLIQUES}[0].spec.podSpec.initContainers[0].env[0].name: Invalid value: "": '
                "must be printable ASCII characters other than '=', at least one"
            ],
        ),
        # 15: multi-node NVLink
        (
            with_changed_field("metadata.annotations", {"grove.io/mnnvl-group": "pair"}),
            [
                'metadata.annotations[grove.io/mnnvl-group]: Invalid value: "pair": multi-node '
                'NVLink is disabled in this cluster; only "none" is allowed'
            ],
        ),
        (
            with_changed_field(f"{GROUPS}[0].annotations", {"grove.io/mnnvl-group": "A"}),
            [
                f'{GROUPS}[0].annotations[grove.io/mnnvl-group]: Invalid value: "A": must be '
                f'"none" or the name of a group, {LABEL_RULE}'
            ],
        ),
    ],
)
def test_invalid_pod_specs_are_rejected(obj: JsonObject, problems: list[str]) -> None:
    assert validate_object(obj) == problems


KAI_ENABLED = OperatorSettings(backends=("kai-scheduler",))


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 16: requirements of schedulers
        (
            pod_clique_set(set_field(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler")),
            [
                "metadata.labels[kai.scheduler/queue]: Required value: kai-scheduler requires the "
                "name of a queue"
            ],
        ),
        (
            set_field(
                pod_clique_set(
                    {
                        **set_field(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler"),
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
    ],
)
def test_kai_requires_one_queue(obj: JsonObject, problems: list[str]) -> None:
    assert validate_object(obj, KAI_ENABLED) == problems


@pytest.mark.parametrize("scheduler", ["kai-scheduler", "volcano"])
def test_new_set_must_name_an_enabled_scheduler(scheduler: str) -> None:
    named = set_field(clique("a"), "spec.podSpec.schedulerName", scheduler)
    known = ("default-scheduler", scheduler)
    (problem,) = validate_object(pod_clique_set(named), OperatorSettings(schedulers=known))
    assert problem == (
        f'{CLIQUES}[0].spec.podSpec.schedulerName: Unsupported value: "{scheduler}": supported '
        'values: "default-scheduler"; or enable its backend: run the operator with '
        f"--scheduler {scheduler}"
    )
    obj = set_field(pod_clique_set(named), "metadata.labels", {"kai.scheduler/queue": "x"})
    assert validate_object(obj, OperatorSettings(schedulers=known, backends=(scheduler,))) == []
    # schedulerName is immutable: an existing set can still be edited.
    edited = set_field(obj, "spec.template.terminationDelay", "1h")
    context = ValidationContext(OperatorSettings(schedulers=known))
    assert validate_update(apply_defaults(obj), apply_defaults(edited), context).errors == ()


@pytest.mark.parametrize("value", ["none", "pair"])
def test_nvlink_groups_are_accepted_when_enabled(value: str) -> None:
    written = set_field(FULL, f"{CLIQUES}[0].annotations", {"grove.io/mnnvl-group": value})
    assert validate_object(written, OperatorSettings(mnnvl=True)) == []


@pytest.mark.parametrize("where", ["metadata.labels", f"{CLIQUES}[0].labels"])
def test_a_queue_may_be_named_by_the_set_or_a_clique(where: str) -> None:
    kai = set_field(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler")
    written = set_field(pod_clique_set(kai), where, {"kai.scheduler/queue": "x"})
    assert validate_object(written, KAI_ENABLED) == []


@pytest.mark.parametrize("scheduler", ["volcano", "lpx-scheduler"])
def test_constraints_are_rejected_for_schedulers_without_topologies(scheduler: str) -> None:
    plain = set_field(clique("a"), "spec.podSpec.schedulerName", scheduler)
    packed = {**plain, "topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}
    settings = OperatorSettings(schedulers=("default-scheduler", scheduler), backends=(scheduler,))
    context = ValidationContext(settings, {"t": ("rack",)})
    assert validate_create(apply_defaults(pod_clique_set(plain)), context).errors == ()
    (problem,) = validate_create(apply_defaults(pod_clique_set(packed)), context).errors
    assert (problem.field, problem.message) == (
        f"{CLIQUES}[0].topologyConstraint",
        f"Forbidden: {scheduler} does not support topology constraints",
    )


def test_volcano_queues_must_be_the_same() -> None:
    volcano = set_field(clique("a"), "spec.podSpec.schedulerName", "volcano")
    key = "scheduling.grove.io/volcano-queue"
    written = pod_clique_set({**volcano, "annotations": {key: "b"}})
    settings = OperatorSettings(schedulers=("volcano",), backends=("volcano",))
    assert validate_object(written, settings) == []
    assert validate_object(set_field(written, "metadata.annotations", {key: "c"}), settings) == [
        f'{CLIQUES}[0].annotations[{key}]: Invalid value: "b": must be the same everywhere; '
        f'metadata.annotations[{key}] is "c"'
    ]


def test_pods_may_name_a_node_once_the_set_exists() -> None:
    old = apply_defaults(FULL)
    new = set_field(old, f"{CLIQUES}[0].spec.podSpec.nodeName", "n1")
    assert validate_update(old, new, ValidationContext()).errors == ()

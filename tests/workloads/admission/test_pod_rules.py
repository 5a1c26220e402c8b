"""Rules for pods, who places them and what joins them (8, 12, 15 and 16)."""

import pytest

from kilonova.workloads.admission import Context, defaulted, validate_create, validate_update
from kilonova.workloads.settings import Settings
from tests.workloads.admission.rules import CLIQUES, FULL, GROUPS, LABEL_RULE, changed, found
from tests.workloads.admission.written import JsonObject, clique, pod_clique_set, with_value


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 8: schedulers
        (
            changed(f"{CLIQUES}[1].spec.podSpec.schedulerName", "kilonova-scheduler"),
            [
                f'{CLIQUES}[1].spec.podSpec.schedulerName: Invalid value: "kilonova-scheduler": '
                'must be the same for all cliques; the first has "default-scheduler"'
            ],
        ),
        (
            changed(f"{CLIQUES}[0].spec.podSpec.schedulerName", "nobody"),
            [
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Unsupported value: "nobody": supported '
                'values: "default-scheduler", "kilonova-scheduler"',
                *(
                    f"{CLIQUES}[{index}].spec.podSpec.schedulerName: Invalid value: "
                    '"default-scheduler": must be the same for all cliques; the first has "nobody"'
                    for index in (1, 2, 3)
                ),
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
    ],
)
def test_pods_that_cannot_run_are_refused(obj: JsonObject, problems: list[str]) -> None:
    assert found(obj) == problems


KAI_ENABLED = Settings(backends=("kai-scheduler",))


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
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
    ],
)
def test_kai_wants_one_queue(obj: JsonObject, problems: list[str]) -> None:
    assert found(obj, KAI_ENABLED) == problems


@pytest.mark.parametrize("scheduler", ["kai-scheduler", "volcano"])
def test_a_new_set_names_a_scheduler_that_is_served(scheduler: str) -> None:
    named = with_value(clique("a"), "spec.podSpec.schedulerName", scheduler)
    known = ("default-scheduler", scheduler)
    (problem,) = found(pod_clique_set(named), Settings(schedulers=known))
    assert problem == (
        f'{CLIQUES}[0].spec.podSpec.schedulerName: Unsupported value: "{scheduler}": supported '
        'values: "default-scheduler"; or enable its backend: run the operator with '
        f"--scheduler {scheduler}"
    )
    obj = with_value(pod_clique_set(named), "metadata.labels", {"kai.scheduler/queue": "x"})
    assert found(obj, Settings(schedulers=known, backends=(scheduler,))) == []
    # Its scheduler cannot be changed: a set that is there already can still be edited.
    edited = with_value(obj, "spec.template.terminationDelay", "1h")
    context = Context(Settings(schedulers=known))
    assert validate_update(defaulted(obj), defaulted(edited), context).problems == ()


@pytest.mark.parametrize("value", ["none", "pair"])
def test_nvlink_groups_are_taken_where_nvlink_is_on(value: str) -> None:
    written = with_value(FULL, f"{CLIQUES}[0].annotations", {"grove.io/mnnvl-group": value})
    assert found(written, Settings(mnnvl=True)) == []


@pytest.mark.parametrize("where", ["metadata.labels", f"{CLIQUES}[0].labels"])
def test_a_queue_may_be_named_by_the_set_or_a_clique(where: str) -> None:
    kai = with_value(clique("a"), "spec.podSpec.schedulerName", "kai-scheduler")
    written = with_value(pod_clique_set(kai), where, {"kai.scheduler/queue": "x"})
    assert found(written, KAI_ENABLED) == []


@pytest.mark.parametrize("scheduler", ["volcano", "lpx-scheduler"])
def test_a_scheduler_without_topologies_is_given_no_constraints(scheduler: str) -> None:
    plain = with_value(clique("a"), "spec.podSpec.schedulerName", scheduler)
    packed = {**plain, "topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}
    settings = Settings(schedulers=("default-scheduler", scheduler), backends=(scheduler,))
    context = Context(settings, {"t": ("rack",)})
    assert validate_create(defaulted(pod_clique_set(plain)), context).problems == ()
    (problem,) = validate_create(defaulted(pod_clique_set(packed)), context).problems
    assert (problem.field, problem.message) == (
        f"{CLIQUES}[0].topologyConstraint",
        f"Forbidden: {scheduler} knows no topology constraints",
    )


def test_queues_of_volcano_agree() -> None:
    volcano = with_value(clique("a"), "spec.podSpec.schedulerName", "volcano")
    key = "scheduling.grove.io/volcano-queue"
    written = pod_clique_set({**volcano, "annotations": {key: "b"}})
    settings = Settings(schedulers=("volcano",), backends=("volcano",))
    assert found(written, settings) == []
    assert found(with_value(written, "metadata.annotations", {key: "c"}), settings) == [
        f'{CLIQUES}[0].annotations[{key}]: Invalid value: "b": must be the same everywhere; '
        f'metadata.annotations[{key}] is "c"'
    ]


def test_pods_may_name_a_node_once_the_set_exists() -> None:
    old = defaulted(FULL)
    new = with_value(old, f"{CLIQUES}[0].spec.podSpec.nodeName", "n1")
    assert validate_update(old, new, Context()).problems == ()

"""What enabled backends write on gangs and pods."""

from typing import Any

import pytest

from kilonova.workloads.backends.stamps import gang_annotations
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.pods import pod_object
from tests.workloads.builders import clique, pod_clique, pod_clique_set, pod_template

QUEUE = "kai.scheduler/queue"


def marks(scheduler: str, *backends: str, **metadata: Any) -> tuple[Any, Any]:
    """Labels and annotations of a pod that it would not have without backends."""
    settings = Settings(schedulers=("default-scheduler", scheduler), backends=backends)
    set_ = pod_clique_set(
        clique("worker", pod_spec=pod_template(schedulerName=scheduler)), **metadata
    )
    owner = pod_clique(set_, "worker", settings=settings)

    def built(chosen: Settings) -> Any:
        return pod_object(owner, set_, 0, "p", gated=False, released=False, settings=chosen)

    plain, found = built(Settings())["metadata"], built(settings)["metadata"]

    def added(kind: str) -> Any:
        before = plain.get(kind, {})
        return {key: each for key, each in found.get(kind, {}).items() if before.get(key) != each}

    return added("labels"), added("annotations")


def test_pods_of_kai_name_their_pod_group_their_subgroup_and_their_queue() -> None:
    assert marks("kai-scheduler", "kai-scheduler", annotations={QUEUE: "q"}) == (
        {"kai.scheduler/subgroup-name": "sys-0-worker", QUEUE: "q"},
        {"kai.scheduler/skip-podgrouper": "true", "pod-group-name": "sys-0"},
    )


def test_pods_of_volcano_name_their_pod_group() -> None:
    assert marks("volcano", "kai-scheduler", "volcano") == (
        {},
        {
            "scheduling.k8s.io/group-name": "sys-0",
            "scheduling.volcano.sh/group-name": "sys-0",
        },
    )


@pytest.mark.parametrize(
    ("scheduler", "backends"),
    [
        ("kai-scheduler", ()),
        ("volcano", ("kai-scheduler",)),
        ("default-scheduler", ("kai-scheduler", "volcano")),
        ("lpx-scheduler", ("kai-scheduler", "volcano")),
    ],
)
def test_pods_of_others_are_left_as_they_are(scheduler: str, backends: tuple[str, ...]) -> None:
    assert marks(scheduler, *backends, labels={QUEUE: "q"}) == ({}, {})


def test_gangs_of_kai_are_not_grouped_by_kai_itself() -> None:
    on, off = Settings(backends=("kai-scheduler",)), Settings()
    skipped = {"kai.scheduler/skip-podgrouper": "true"}
    assert gang_annotations("kai-scheduler", on) == skipped
    assert gang_annotations("kai-scheduler", off) == {}
    assert gang_annotations("volcano", on) == {}

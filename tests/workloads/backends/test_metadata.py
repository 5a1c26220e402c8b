"""Metadata that enabled backends add to gangs and pods."""

from typing import Any

import pytest

from kilonova.workloads.backends.metadata import build_gang_annotations
from kilonova.workloads.builders.pods import build_pod
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.api_objects import clique, pod_clique, pod_clique_set, pod_template

QUEUE = "kai.scheduler/queue"


def list_added_metadata(scheduler: str, *backends: str, **metadata: Any) -> tuple[Any, Any]:
    """Labels and annotations of a pod that it would not have without backends."""
    settings = OperatorSettings(schedulers=("default-scheduler", scheduler), backends=backends)
    set_ = pod_clique_set(
        clique("worker", pod_spec=pod_template(schedulerName=scheduler)), **metadata
    )
    owner = pod_clique(set_, "worker", settings=settings)

    def built(chosen: OperatorSettings) -> Any:
        return build_pod(owner, set_, 0, "p", gated=False, released=False, settings=chosen)

    plain, found = built(OperatorSettings())["metadata"], built(settings)["metadata"]

    def added(kind: str) -> Any:
        before = plain.get(kind, {})
        return {key: each for key, each in found.get(kind, {}).items() if before.get(key) != each}

    return added("labels"), added("annotations")


def test_pods_of_kai_name_their_pod_group_their_subgroup_and_their_queue() -> None:
    assert list_added_metadata("kai-scheduler", "kai-scheduler", annotations={QUEUE: "q"}) == (
        {"kai.scheduler/subgroup-name": "sys-0-worker", QUEUE: "q"},
        {"kai.scheduler/skip-podgrouper": "true", "pod-group-name": "sys-0"},
    )


def test_pods_of_volcano_name_their_pod_group() -> None:
    assert list_added_metadata("volcano", "kai-scheduler", "volcano") == (
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
def test_pods_of_other_schedulers_get_no_metadata(
    scheduler: str, backends: tuple[str, ...]
) -> None:
    assert list_added_metadata(scheduler, *backends, labels={QUEUE: "q"}) == ({}, {})


def test_kai_podgrouper_is_skipped_for_gangs() -> None:
    on, off = OperatorSettings(backends=("kai-scheduler",)), OperatorSettings()
    skipped = {"kai.scheduler/skip-podgrouper": "true"}
    assert build_gang_annotations("kai-scheduler", on) == skipped
    assert build_gang_annotations("kai-scheduler", off) == {}
    assert build_gang_annotations("volcano", on) == {}

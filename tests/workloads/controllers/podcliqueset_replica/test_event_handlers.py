"""Which replicas are enqueued when their set changes."""

from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet
from kilonova.api.grove.podcliqueset import (
    SetRollingUpdate,
    SetUpdateProgress,
    UpdateStrategy,
    UpdatingReplica,
)
from kilonova.workloads.controllers.podcliqueset_replica.event_handlers import on_set
from kilonova.workloads.keys import ReplicaKey
from tests.workloads.api_objects import clique, pod_clique_set

OLD = pod_clique_set(replicas=3, labels={"team": "blue"}, annotations={"note": "1"})
SURGING = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=1))


def edit_set(**fields: Any) -> PodCliqueSet:
    """The set with other fields of its metadata, spec or status."""
    metadata, spec, status = OLD.metadata, OLD.spec, OLD.status
    for name, value in fields.items():
        if hasattr(metadata, name):
            metadata = replace(metadata, **{name: value})
        elif hasattr(spec, name):
            spec = replace(spec, **{name: value})
        else:
            status = replace(status, **{name: value})
    return PodCliqueSet(metadata, spec, status)


def with_updating_replicas(*indexes: int) -> SetUpdateProgress:
    return SetUpdateProgress(currently_updating=tuple(map(UpdatingReplica, indexes)))


def list_enqueued_replicas(old: PodCliqueSet | None, new: PodCliqueSet | None) -> set[int]:
    found = [ReplicaKey.from_queue_key(key) for key in on_set(old, new)]
    assert {(each.namespace, each.set_name) for each in found} <= {("default", "sys")}
    return {each.index for each in found}


ALL = {0, 1, 2}


@pytest.mark.parametrize(
    ("new", "indexes"),
    [
        # Changes that affect every replica.
        (edit_set(labels={"team": "red"}), ALL),
        (edit_set(labels={}), ALL),
        (edit_set(annotations={"note": "2"}), ALL),
        (edit_set(update_strategy=UpdateStrategy("OnDelete")), ALL),
        (edit_set(update_strategy=SURGING), ALL),
        (edit_set(template=pod_clique_set(clique("other")).spec.template), ALL),
        (edit_set(uid="another"), ALL),
        # Changes that affect no replica.
        (edit_set(), set[int]()),
        (edit_set(available_replicas=3), set[int]()),
        (edit_set(resource_version="2", generation=2), set[int]()),
        (edit_set(labels={"team": "blue", "grove.io/own": "x"}), set[int]()),
        (edit_set(annotations={"note": "1", "kubectl.kubernetes.io/x": "y"}), set[int]()),
        # New replicas, and replicas whose update starts.
        (edit_set(replicas=5), {3, 4}),
        (edit_set(replicas=1), set[int]()),
        (edit_set(update_progress=with_updating_replicas(1)), {1}),
    ],
)
def test_edit_enqueues_the_replicas_that_it_changes(new: PodCliqueSet, indexes: set[int]) -> None:
    assert list_enqueued_replicas(OLD, new) == indexes


def test_an_update_that_moves_to_another_replica_enqueues_both() -> None:
    assert list_enqueued_replicas(
        edit_set(update_progress=with_updating_replicas(0)),
        edit_set(update_progress=with_updating_replicas(1)),
    ) == {0, 1}


def test_new_set_enqueues_all_replicas_and_deleted_set_none() -> None:
    assert list_enqueued_replicas(None, OLD) == ALL
    assert list_enqueued_replicas(OLD, None) == set[int]()

"""Which replicas are looked at again when their set changes."""

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
from kilonova.workloads.keys import Replica
from kilonova.workloads.replicas.concerns import of_set
from tests.workloads.builders import clique, pod_clique_set

OLD = pod_clique_set(replicas=3, labels={"team": "blue"}, annotations={"note": "1"})
SURGING = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=1))


def edited(**fields: Any) -> PodCliqueSet:
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


def turns(*indexes: int) -> SetUpdateProgress:
    return SetUpdateProgress(currently_updating=tuple(map(UpdatingReplica, indexes)))


def concerned(old: PodCliqueSet | None, new: PodCliqueSet | None) -> set[int]:
    found = [Replica.of_key(key) for key in of_set(old, new)]
    assert {(each.namespace, each.set_name) for each in found} <= {("default", "sys")}
    return {each.index for each in found}


ALL = {0, 1, 2}


@pytest.mark.parametrize(
    ("new", "indexes"),
    [
        # Every replica is made otherwise, or updated in another way.
        (edited(labels={"team": "red"}), ALL),
        (edited(labels={}), ALL),
        (edited(annotations={"note": "2"}), ALL),
        (edited(update_strategy=UpdateStrategy("OnDelete")), ALL),
        (edited(update_strategy=SURGING), ALL),
        (edited(template=pod_clique_set(clique("other")).spec.template), ALL),
        (edited(uid="another"), ALL),
        # What replicas do not decide by.
        (edited(), set[int]()),
        (edited(available_replicas=3), set[int]()),
        (edited(resource_version="2", generation=2), set[int]()),
        (edited(labels={"team": "blue", "grove.io/own": "x"}), set[int]()),
        (edited(annotations={"note": "1", "kubectl.kubernetes.io/x": "y"}), set[int]()),
        # More of them, and turns that come.
        (edited(replicas=5), {3, 4}),
        (edited(replicas=1), set[int]()),
        (edited(update_progress=turns(1)), {1}),
    ],
)
def test_an_edit_concerns_the_replicas_that_it_changes(
    new: PodCliqueSet, indexes: set[int]
) -> None:
    assert concerned(OLD, new) == indexes


def test_a_turn_that_goes_on_to_another_replica_concerns_both() -> None:
    assert concerned(edited(update_progress=turns(0)), edited(update_progress=turns(1))) == {0, 1}


def test_a_set_that_comes_concerns_all_replicas_and_one_that_goes_none() -> None:
    assert concerned(None, OLD) == ALL
    assert concerned(OLD, None) == set[int]()

"""The workload of a pod, and kinds with their API group."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.group_kinds import WELL_KNOWN_GROUPS, GroupKind
from kilonova.api.meta import Metadata
from kilonova.api.pods.workload_owner import (
    POD,
    SET,
    Owned,
    Workload,
    find_labelled_workload,
    find_workload,
    list_owners,
    workload_metadata,
)

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
OPERATOR = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "train"}

kinds = st.one_of(
    st.sampled_from([GroupKind(group, kind) for kind, group in WELL_KNOWN_GROUPS.items()]),
    st.builds(
        GroupKind,
        st.from_regex(r"[a-z][a-z0-9]{0,12}(\.[a-z][a-z0-9-]{0,12}[a-z0-9]){1,3}", fullmatch=True),
        st.from_regex(r"[A-Z][A-Za-z0-9]{0,40}", fullmatch=True),
    ),
)
object_names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True)


def owner(kind: str, name: str, version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}


def owned(kind: GroupKind = POD, **metadata: Any) -> Owned:
    body = {"name": "p", "namespace": "team", "uid": "", "resourceVersion": "", **metadata}
    return Owned.from_metadata(kind, msgspec.convert(body, Metadata))


@given(kinds, object_names)
def test_a_pod_names_its_workload_whatever_its_kind_and_name(kind: GroupKind, name: str) -> None:
    workload = Workload(kind, "team", name)
    labels, annotations = workload_metadata(workload)
    assert all(LABEL_VALUE.fullmatch(each) for each in labels.values())
    assert find_workload(owned(labels=labels, annotations=annotations)) == workload


@given(kinds)
def test_the_text_of_a_kind_is_parsed_back(kind: GroupKind) -> None:
    assert GroupKind.parse(str(kind)) == kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (GroupKind("apps", "Deployment"), "Deployment"),
        (GroupKind("example.com", "Deployment"), "Deployment.example.com"),
        (GroupKind("", "Pod"), "Pod"),
        (GroupKind("ray.io", "RayCluster"), "RayCluster.ray.io"),
    ],
)
def test_well_known_groups_are_left_out(kind: GroupKind, text: str) -> None:
    assert str(kind) == text


JOBSET = {"jobset.sigs.k8s.io/jobset-name": "sweep"}
LWS = {"leaderworkerset.sigs.k8s.io/name": "chat"}


@pytest.mark.parametrize(
    ("metadata", "id"),
    [
        ({}, "Pod/team/p"),
        ({"ownerReferences": [owner("Job", "j", "batch/v1")]}, "Job/team/j"),
        (
            {"ownerReferences": [owner("Job", "j", "batch.volcano.sh/v1alpha1")]},
            "Job.batch.volcano.sh/team/j",
        ),
        (
            {
                "labels": {"pod-template-hash": "5d4f"},
                "ownerReferences": [owner("ReplicaSet", "web-5d4f", "apps/v1")],
            },
            "Deployment/team/web",
        ),
        (
            {
                "labels": {"pod-template-hash": "5d4f"},
                "ownerReferences": [owner("ReplicaSet", "web-5d4f", "example.com/v1")],
            },
            "ReplicaSet.example.com/team/web-5d4f",
        ),
        ({"labels": OPERATOR}, "PodCliqueSet/team/train"),
        (
            {"labels": JOBSET, "ownerReferences": [owner("Job", "sweep-a-0", "batch/v1")]},
            "JobSet/team/sweep",
        ),
        (
            {"labels": LWS, "ownerReferences": [owner("StatefulSet", "chat-0", "apps/v1")]},
            "LeaderWorkerSet/team/chat",
        ),
        (
            {"labels": {**OPERATOR, "kilonova.dev/workload": "Chat.example.com_c1"}},
            "Chat.example.com/team/c1",
        ),
        # A label that names no workload counts as none.
        ({"labels": {"kilonova.dev/workload": "train"}}, "Pod/team/p"),
        ({"labels": {**OPERATOR, "kilonova.dev/workload": "_x"}}, "PodCliqueSet/team/train"),
        # An annotation alone, or one that is not of the label, counts for nothing.
        ({"annotations": {"kilonova.dev/workload": "Job_j"}}, "Pod/team/p"),
        (
            {
                "labels": {"kilonova.dev/workload": "Job_j"},
                "annotations": {"kilonova.dev/workload": "Job_k"},
            },
            "Job/team/j",
        ),
        # The API server does not validate kind and name of an owner.
        ({"ownerReferences": [owner("a/b", "c/d")]}, "Pod/team/p"),
        ({"ownerReferences": [owner("Job", "\x1b]0;mine\x07", "batch/v1")]}, "Pod/team/p"),
        ({"ownerReferences": [owner("Deployment", "x", "v1")]}, "Pod/team/p"),
    ],
)
def test_workload_of_a_pod(metadata: dict[str, Any], id: str) -> None:
    assert find_workload(owned(**metadata)).id == id


def test_a_set_of_another_object_belongs_to_its_workload() -> None:
    controlled = owned(SET, ownerReferences=[owner("Chat", "c1", "example.com/v1")])
    assert find_workload(controlled).id == "Chat.example.com/team/c1"
    assert find_labelled_workload(controlled) is None
    assert find_workload(owned(SET)).id == "PodCliqueSet/team/p"


def test_all_owners_of_a_pod_are_listed() -> None:
    labels = {**OPERATOR, "grove.io/podclique": "train-0-a", "kilonova.dev/workload": "Run.x.io_r"}
    references = [owner("PodClique", "train-0-a", "grove.io/v1alpha1")]
    body = {"name": "p", "namespace": "team", "uid": "", "resourceVersion": "", "labels": labels}
    metadata = msgspec.convert({**body, "ownerReferences": references}, Metadata)
    found = list_owners(Owned.from_metadata(POD, metadata), metadata.owner_references)
    assert {each.id for each in found} == {
        "PodClique/team/train-0-a",
        "PodCliqueSet/team/train",
        "Run.x.io/team/r",
    }

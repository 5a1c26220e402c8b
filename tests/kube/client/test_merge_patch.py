"""Satisfied fields are not written, and the patch is minimal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.client.merge_patch import minimal_merge_patch, needs_patch

LIVE = {
    "metadata": {
        "name": "x",
        "resourceVersion": "7",
        "labels": {"app": "a", "other": "b"},
        "finalizers": ["theirs"],
    },
    "spec": {
        "replicas": 3,
        "containers": [
            {
                "name": "main",
                "image": "i:1",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log",
            },
            {"name": "injected", "image": "mesh"},
        ],
        "args": ["a", "b"],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]},
}


@pytest.mark.parametrize(
    "desired",
    [
        {},
        {"spec": {"replicas": 3}},
        {"metadata": {"labels": {"app": "a"}}},
        {"metadata": {"annotations": {}, "finalizers": []}},
        {"metadata": {"finalizers": ["theirs"]}},
        {"metadata": {"labels": {"gone": None}}},
        {"spec": {"hostNetwork": False, "nodeName": "", "tolerations": []}},
        {"spec": {"containers": [{"name": "main", "image": "i:1"}]}},
        {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]}},
        {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}},
                    }
                ]
            }
        },
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]}},
        {"spec": {"args": ["a", "b"]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    ],
)
def test_satisfied_fields_are_not_patched(desired):
    assert not needs_patch(LIVE, desired)
    assert minimal_merge_patch(LIVE, desired) is None


@pytest.mark.parametrize(
    ("desired", "patch"),
    [
        ({"spec": {"replicas": 4}}, {"spec": {"replicas": 4}}),
        ({"spec": {"replicas": 0}}, {"spec": {"replicas": 0}}),
        ({"status": {"ready": 0}}, {"status": {"ready": 0}}),
        ({"spec": {"replicas": True}}, {"spec": {"replicas": True}}),
        (
            {"metadata": {"labels": {"app": "b", "other": "b"}}},
            {"metadata": {"labels": {"app": "b"}}},
        ),
        ({"metadata": {"labels": {"app": None}}}, {"metadata": {"labels": {"app": None}}}),
        ({"spec": {"args": ["a"]}}, {"spec": {"args": ["a"]}}),
        ({"spec": {"args": []}}, {"spec": {"args": []}}),
        ({"spec": {"args": {"a": 1}}}, {"spec": {"args": {"a": 1}}}),
        (
            {"spec": {"probe": {"enabled": False, "path": "/", "gone": None}}},
            {"spec": {"probe": {"enabled": False, "path": "/"}}},
        ),
        (
            {"status": {"conditions": [{"type": "Healthy", "status": "True"}]}},
            {
                "metadata": {"resourceVersion": "7"},
                "status": {
                    "conditions": [
                        {"type": "Ready", "status": "True", "reason": "Up"},
                        {"type": "Healthy", "status": "True"},
                    ]
                },
            },
        ),
        (
            {"metadata": {"labels": {"app": "c"}, "finalizers": ["ours"]}},
            {
                "metadata": {
                    "resourceVersion": "7",
                    "labels": {"app": "c"},
                    "finalizers": ["theirs", "ours"],
                }
            },
        ),
    ],
)
def test_only_differences_are_patched(desired, patch):
    assert needs_patch(LIVE, desired)
    assert minimal_merge_patch(LIVE, desired) == patch


@pytest.mark.parametrize(
    ("stored", "expected", "is_same"),
    [
        ({"averageValue": "1"}, {"averageValue": "1000m"}, True),
        ({"value": "1k"}, {"value": 1000}, True),
        ({"averageValue": "1"}, {"averageValue": "1001m"}, False),
        ({"type": "1"}, {"type": "1000m"}, False),
    ],
)
def test_metric_targets_are_compared_by_value(stored, expected, is_same):
    live = {"spec": {"metrics": [{"type": "Pods", "pods": {"target": stored}}]}}
    desired = {"spec": {"metrics": [{"type": "Pods", "pods": {"target": expected}}]}}
    assert needs_patch(live, desired) is not is_same


def test_patched_list_element_keeps_other_fields_and_elements():
    desired = {
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "i:2",
                    "terminationMessagePath": None,
                    "resources": {"requests": {"cpu": "2"}},
                }
            ]
        }
    }
    patch = minimal_merge_patch(LIVE, desired)
    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "i:2",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"memory": "1Gi", "cpu": "2"}},
                },
                {"name": "injected", "image": "mesh"},
            ]
        },
    }


def test_live_object_is_not_changed():
    before = repr(LIVE)
    minimal_merge_patch(LIVE, {"spec": {"containers": [{"name": "main", "image": "x"}]}})
    assert repr(LIVE) == before


scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x", "1Gi"])
names = st.sampled_from(["a", "b", "conditions", "type", "requests", "finalizers", "ports", "port"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=4)


@given(objects, objects)
def test_desired_state_is_satisfied_after_the_patch(live: dict[str, Any], desired: dict[str, Any]):
    patch = minimal_merge_patch(live, desired)
    assert needs_patch(live, desired) == (patch is not None)
    if patch is not None:
        assert not needs_patch(apply_merge_patch(live, patch), desired)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def test_list_of_a_struct_is_compared_as_a_list():
    owner = {"uid": "u", "name": "x"}
    live = {"metadata": {"ownerReferences": (owner,)}, "spec": {"args": ("a", "b")}}
    assert not needs_patch(live, {"metadata": {"ownerReferences": [{"uid": "u"}]}})
    assert not needs_patch(live, {"spec": {"args": ["a", "b"]}})
    assert needs_patch(live, {"spec": {"args": ["a"]}})
    other = {"metadata": {"ownerReferences": [{"uid": "v"}]}}
    assert minimal_merge_patch(live, other) == {
        "metadata": {"ownerReferences": [owner, {"uid": "v"}]}
    }

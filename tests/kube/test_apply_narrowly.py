"""What holds is not written again, and what is written is the least that makes it hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.apply import differs, narrowest_patch

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
def test_what_already_holds_is_not_written(desired):
    assert not differs(LIVE, desired)
    assert narrowest_patch(LIVE, desired) is None


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
def test_only_what_differs_is_written(desired, patch):
    assert differs(LIVE, desired)
    assert narrowest_patch(LIVE, desired) == patch


@pytest.mark.parametrize(
    ("stored", "wanted", "is_same"),
    [
        ({"averageValue": "1"}, {"averageValue": "1000m"}, True),
        ({"value": "1k"}, {"value": 1000}, True),
        ({"averageValue": "1"}, {"averageValue": "1001m"}, False),
        ({"type": "1"}, {"type": "1000m"}, False),
    ],
)
def test_targets_of_metrics_are_compared_by_value(stored, wanted, is_same):
    live = {"spec": {"metrics": [{"type": "Pods", "pods": {"target": stored}}]}}
    desired = {"spec": {"metrics": [{"type": "Pods", "pods": {"target": wanted}}]}}
    assert differs(live, desired) is not is_same


def test_a_changed_list_element_keeps_its_other_fields_and_its_neighbours():
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
    patch = narrowest_patch(LIVE, desired)
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


def test_the_live_object_is_not_touched():
    before = repr(LIVE)
    narrowest_patch(LIVE, {"spec": {"containers": [{"name": "main", "image": "x"}]}})
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
def test_after_the_patch_the_desired_holds(live: dict[str, Any], desired: dict[str, Any]):
    patch = narrowest_patch(live, desired)
    assert differs(live, desired) == (patch is not None)
    if patch is not None:
        assert not differs(merge_patch(live, patch), desired)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386, as the standard words it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result

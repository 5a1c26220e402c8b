"""Equal parts of many pods are interned, and different ones are not confused."""

from typing import Any

import msgspec

from kilonova.local.objects.core import Pod


def _pod(name: str, *, seconds: int = 300, since: str = "2026-05-01T00:00:00Z") -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    toleration = {"key": "out", "operator": "Exists", "tolerationSeconds": seconds}
    body: Any = {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"tolerations": [toleration]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def test_equal_parts_of_two_pods_are_interned() -> None:
    first, second = _pod("a"), _pod("b")
    assert first.spec.tolerations is second.spec.tolerations
    assert first.status.conditions is second.status.conditions
    assert first.metadata.owner_references is second.metadata.owner_references
    assert (first.metadata.name, second.metadata.name) == ("a", "b")


def test_different_parts_are_not_shared() -> None:
    first, second = _pod("a"), _pod("b", seconds=10, since="2026-05-01T00:00:01Z")
    assert first.spec.tolerations[0].toleration_seconds == 300
    assert second.spec.tolerations[0].toleration_seconds == 10
    assert second.status.conditions[0].last_transition_time == "2026-05-01T00:00:01Z"

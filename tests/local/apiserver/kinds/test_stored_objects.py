"""The stored object of a manifest equals that of a real kube-apiserver."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.apimachinery.names import validate_object_meta
from tests.local.apiserver.kinds.recorded_objects import (
    manifests,
    normalize,
    served_kinds,
    stored,
    storing,
)


def make_stored(manifest: Any) -> Any:
    """Process a manifest as the registry does: to the store and back."""
    kinds = served_kinds()
    kind = kinds[manifest["apiVersion"], manifest["kind"]]
    strategy = storing(kinds, kind).strategy
    obj = deepcopy(manifest)
    kind.strategy.default(obj)
    if kind.to_storage:
        obj = kind.to_storage(obj)
    obj["metadata"].update(uid="5c1a-uid", creationTimestamp="2026-07-08T09:10:11Z")
    strategy.prepare_create(obj)
    problems = validate_object_meta(obj["metadata"], kind.namespaced, strategy.name_error)
    assert problems + strategy.validate(obj) == []
    if strategy.has_generation:
        obj["metadata"]["generation"] = 1
    if kind.from_storage:
        obj = kind.from_storage(obj)
    obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
    return obj


@pytest.mark.parametrize("name", manifests())
def test_object_is_stored_as_kubernetes_stores_it(name: str) -> None:
    assert normalize(make_stored(manifests()[name])) == stored()[name]


@pytest.mark.parametrize("name", manifests())
def test_defaulting_is_idempotent(name: str) -> None:
    first_pass = make_stored(manifests()[name])
    kinds = served_kinds()
    again = deepcopy(first_pass)
    kinds[first_pass["apiVersion"], first_pass["kind"]].strategy.default(again)
    assert again == first_pass


@pytest.mark.parametrize("name", manifests())
def test_update_without_changes_is_valid(name: str) -> None:
    kinds = served_kinds()
    served = make_stored(manifests()[name])
    kind = kinds[served["apiVersion"], served["kind"]]
    strategy = storing(kinds, kind).strategy
    old = kind.to_storage(served) if kind.to_storage else served
    new = deepcopy(old)
    strategy.prepare_update(new, deepcopy(old))
    assert new == old
    assert strategy.validate_update(new, old) == []

"""What is stored for a manifest: equal to what a genuine kube-apiserver stores."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.names import object_meta_problems
from tests.local.kinds.recorded import manifests, normal, served_kinds, stored, storing


def make_stored(manifest: Any) -> Any:
    """A manifest on its way into the store and out again, as the registry walks it."""
    kinds = served_kinds()
    kind = kinds[manifest["apiVersion"], manifest["kind"]]
    behavior = storing(kinds, kind).behavior
    obj = deepcopy(manifest)
    kind.behavior.default(obj)
    if kind.to_storage:
        obj = kind.to_storage(obj)
    obj["metadata"].update(uid="5c1a-uid", creationTimestamp="2026-07-08T09:10:11Z")
    behavior.prepare_create(obj)
    problems = object_meta_problems(obj["metadata"], kind.namespaced, behavior.valid_name)
    assert problems + behavior.validate(obj) == []
    if behavior.has_generation:
        obj["metadata"]["generation"] = 1
    if kind.from_storage:
        obj = kind.from_storage(obj)
    obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
    return obj


@pytest.mark.parametrize("name", manifests())
def test_object_is_stored_as_kubernetes_stores_it(name: str) -> None:
    assert normal(make_stored(manifests()[name])) == stored()[name]


@pytest.mark.parametrize("name", manifests())
def test_defaults_do_not_change_what_has_them(name: str) -> None:
    once = make_stored(manifests()[name])
    kinds = served_kinds()
    again = deepcopy(once)
    kinds[once["apiVersion"], once["kind"]].behavior.default(again)
    assert again == once


@pytest.mark.parametrize("name", manifests())
def test_an_update_that_changes_nothing_is_allowed(name: str) -> None:
    kinds = served_kinds()
    shown = make_stored(manifests()[name])
    kind = kinds[shown["apiVersion"], shown["kind"]]
    behavior = storing(kinds, kind).behavior
    old = kind.to_storage(shown) if kind.to_storage else shown
    new = deepcopy(old)
    behavior.prepare_update(new, deepcopy(old))
    assert new == old
    assert behavior.validate_update(new, old) == []

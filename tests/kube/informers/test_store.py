"""The store: objects by key and by index, and consistent calls of event handlers."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube import Key, Store
from tests.kube.scripted_transport import Meta, Pod, Spec


def make(name: str, node: str = "", version: int = 1) -> Pod:
    return Pod(Meta(name, "default", str(version)), Spec(node))


def by_node(pod: Pod) -> list[str]:
    return pod.spec.node_name.split(",") if pod.spec.node_name else []


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


NODES = st.sampled_from(["", "n1", "n2", "n1,n2", "n1,n1"])
NAMES = st.sampled_from("abcd")
PUTS = st.tuples(st.just("put"), NAMES, NODES)
REMOVES = st.tuples(st.just("remove"), NAMES, st.just(""))
REPLACES = st.tuples(st.just("replace"), st.dictionaries(NAMES, NODES), st.sets(NAMES))


@given(st.lists(PUTS | REMOVES | REPLACES))
def test_indexes_and_handlers_agree_with_the_objects(steps: list[tuple[str, Any, Any]]) -> None:
    store = Store(Pod, {"node": by_node})
    reported: dict[Key, Pod] = {}

    def handler(old: Pod | None, new: Pod | None) -> None:
        key = store.key_of(new or old)  # type: ignore[arg-type]
        assert reported.get(key) is old
        assert store.get(key) is new
        if new is None:
            del reported[key]
        else:
            reported[key] = new

    store.add_event_handler(handler)
    for version, (step, what, more) in enumerate(steps):
        if step == "put":
            store.put(make(what, more, version))
        elif step == "remove":
            store.remove(("default", what))
        else:
            pods = {("default", name): make(name, node, version) for name, node in what.items()}
            retained = {("default", name) for name in more}
            stay = {key for key in retained if key in store and key not in pods}
            store.replace(pods, keep_keys=retained)
            assert set(store.keys()) == set(pods) | stay
    keys = store.keys()
    assert reported == {key: store.get(key) for key in keys}
    late = Store(Pod)
    for pod in store.objects():
        late.put(pod)
    late.add_index("node", by_node)
    for node in ("n1", "n2", "absent"):
        expected = {pod.metadata.name for pod in store.objects() if node in by_node(pod)}
        for each in (store, late):
            assert set(names(each.by_index("node", node))) == expected
            assert each.count_by_index("node", node) == len(expected)
    assert "" not in store.index_values("node")


def test_replace_notifies_only_differences() -> None:
    store = Store(Pod)
    store.replace({("default", name): make(name) for name in "abc"})
    reported: list[tuple[str | None, str | None]] = []
    store.add_event_handler(
        lambda old, new: reported.append(
            (old and old.metadata.resource_version, new and new.metadata.resource_version)
        )
    )
    fresh = [make("b"), make("c", version=2), make("d")]
    store.replace({store.key_of(pod): pod for pod in fresh})
    assert reported == [("1", None), ("1", "2"), (None, "1")]


def test_removed_event_handler_is_not_called() -> None:
    store, reported = Store(Pod), list[Any]()
    unsubscribe = store.add_event_handler(lambda old, new: reported.append(new))
    unsubscribe()
    store.put(make("a"))
    assert reported == []


def test_by_index_returns_insertion_order() -> None:
    store = Store(Pod, {"node": by_node})
    for name in "dbca":
        store.put(make(name, "n1"))
    assert names(store.by_index("node", "n1")) == list("dbca")


def test_duplicate_index_is_rejected() -> None:
    store = Store(Pod, {"node": by_node})
    with pytest.raises(ValueError, match="already"):
        store.add_index("node", by_node)


class ClusterMeta(msgspec.Struct):
    name: str
    resourceVersion: str = ""


class ClusterWide(msgspec.Struct):
    metadata: ClusterMeta


@dataclass
class LooseMeta:
    name: str | None = None
    namespace: str | None = None
    resourceVersion: str | None = None


@dataclass
class Loose:
    metadata: LooseMeta | None = None


@pytest.mark.parametrize(
    ("type_", "obj", "key"),
    [
        (Pod, make("a"), ("default", "a")),
        (ClusterWide, ClusterWide(ClusterMeta("a", "1")), ("", "a")),
        (Loose, Loose(LooseMeta("a", "x", "1")), ("x", "a")),
        (Loose, Loose(LooseMeta("a", None, "1")), ("", "a")),
        (dict, {"metadata": {"name": "a", "resourceVersion": "1"}}, ("", "a")),
        (
            dict[str, Any],
            {"metadata": {"name": "a", "namespace": "x", "resourceVersion": "1"}},
            ("x", "a"),
        ),
    ],
)
def test_any_type_with_metadata_can_be_stored(type_: Any, obj: Any, key: Key) -> None:
    store: Store[Any] = Store(type_)
    store.put(obj)
    assert (store.key_of(obj), store.version_of(obj), key in store) == (key, "1", True)


class Nameless(msgspec.Struct):
    metadata: Spec


@pytest.mark.parametrize(("type_", "missing"), [(Spec, "metadata"), (Nameless, "name")])
def test_type_without_metadata_is_rejected(type_: Any, missing: str) -> None:
    with pytest.raises(TypeError, match=f"it has no {missing}"):
        Store(type_)

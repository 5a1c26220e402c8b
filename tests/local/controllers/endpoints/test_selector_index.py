"""The index equals a full scan after any sequence of changes."""

from collections import UserDict

from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.endpoints.selector_index import SelectorIndex

namespaces = st.sampled_from(["a", "b"])
names = st.sampled_from(["x", "y", "z"])
labels = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "2"]), max_size=2)
keys = st.tuples(namespaces, names)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("selector"), keys, st.one_of(st.none(), labels)),
        st.tuples(st.just("pod"), keys, st.one_of(st.none(), labels)),
    ),
    max_size=30,
)


@given(changes)
def test_selected_pods_are_the_matching_ones(
    sequence: list[tuple[str, Key, dict[str, str] | None]],
) -> None:
    membership = SelectorIndex()
    selectors: dict[Key, dict[str, str] | None] = {}
    pods: dict[Key, dict[str, str]] = {}
    for what, key, value in sequence:
        if what == "selector":
            selectors[key] = value
            membership.set_selector(key, value, pods.items())
            continue
        before = pods.pop(key, None)
        if before is not None:
            membership.remove_pod(key, before)
        if value is not None:
            pods[key] = value
            membership.put_pod(key, value)
    for owner, selector in selectors.items():
        expected = {
            pod
            for pod, given in pods.items()
            if selector and pod[0] == owner[0] and selector.items() <= given.items()
        }
        assert set(membership.selected_pods(owner)) == expected


class CountedLabels(UserDict[str, str]):
    """Labels that count their lookups."""

    looks = 0

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return super().__getitem__(key)


def test_cost_does_not_depend_on_a_label_of_all_selectors() -> None:
    membership = SelectorIndex()
    for index in range(100):
        membership.set_selector(("a", f"s-{index}"), {"app": "x", "index": str(index)}, ())
    labels = CountedLabels(app="x", index="7")
    assert membership.put_pod(("a", "p"), labels) == [("a", "s-7")]
    assert labels.looks <= 6

"""What a selector is said to select is what it selects, after any sequence of changes."""

from collections import UserDict

from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.identity import Key
from kilonova.local.controllers.endpoints.membership import Membership

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
def test_members_are_the_pods_that_match(
    sequence: list[tuple[str, Key, dict[str, str] | None]],
) -> None:
    membership = Membership()
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
        assert set(membership.members(owner)) == expected


class CountedLabels(UserDict[str, str]):
    """Labels that count how often one is looked at."""

    looks = 0

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return super().__getitem__(key)


def test_a_label_that_all_selectors_share_makes_a_pod_cost_no_more() -> None:
    membership = Membership()
    for index in range(100):
        membership.set_selector(("a", f"s-{index}"), {"app": "x", "index": str(index)}, ())
    labels = CountedLabels(app="x", index="7")
    assert membership.put_pod(("a", "p"), labels) == [("a", "s-7")]
    assert labels.looks <= 6

"""What must hold whatever is applied by whomever."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilonova.local.apply import ApplyConflict, Conflict, field_set, keep_times, shape_of
from kilonova.local.apply.fields import difference, paths, shared
from kilonova.local.patch import copied

SMALL = st.integers(0, 2)
NAMES = st.sampled_from("abc")
UNSCHEMED = st.recursive(
    SMALL | st.booleans(),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=2),
    max_leaves=4,
)


def keyed(key: str, keys: st.SearchStrategy[Any], **more: st.SearchStrategy[Any]) -> Any:
    item = st.fixed_dictionaries({key: keys}, optional=more)
    return st.lists(
        item, min_size=1, max_size=3, unique_by=lambda each: (each[key], each.get("protocol"))
    )


# Nothing is empty: where a map or list was not, Kubernetes makes null of an empty one.
SPECS = st.fixed_dictionaries(
    {"string": st.just("always")},
    optional={
        "numeric": SMALL,
        "flag": st.booleans(),
        "atomicList": st.lists(NAMES, max_size=2),
        "set": st.lists(NAMES, min_size=1, max_size=3, unique=True),
        "list": keyed("name", NAMES, value=SMALL),
        "ports": keyed("port", SMALL, name=NAMES, protocol=st.just("UDP")),
        "map": st.dictionaries(NAMES, SMALL, min_size=1, max_size=2),
        "struct": st.fixed_dictionaries({"a": SMALL}, optional={"b": SMALL}),
        "atomicStruct": st.fixed_dictionaries({}, optional={"a": SMALL, "b": SMALL}),
        "free": st.dictionaries(NAMES, UNSCHEMED, min_size=1, max_size=2),
    },
)
HISTORIES = st.lists(st.tuples(st.sampled_from(["one", "two", "updater"]), SPECS), max_size=3)

unhurried = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def replay(cluster: Any, history: list[tuple[str, Any]]) -> None:
    cluster.live = None
    cluster.drops_nulls = True
    for manager, spec in history:
        if manager == "updater":
            cluster.update(manager, copied(spec))
        else:
            cluster.apply(manager, spec, force=True)


def owned_paths(cluster: Any) -> dict[str, set[tuple[str, ...]]]:
    entries = cluster.live["metadata"].get("managedFields", ())
    return {each["manager"]: set(paths(each["fieldsV1"])) for each in entries}


@unhurried
@given(HISTORIES, SPECS)
def test_applying_twice_is_applying_once(cluster: Any, history: Any, spec: Any) -> None:
    replay(cluster, history)
    cluster.apply("one", spec, force=True)
    once = copied(cluster.live)
    cluster.apply("one", spec)
    assert cluster.live == once


@unhurried
@given(HISTORIES, SPECS)
def test_after_a_forced_apply_the_values_and_their_fields_are_the_appliers(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, history)
    cluster.apply("one", spec, force=True)
    shape = shape_of(cluster.schema)
    wanted = set(paths(field_set(shape, {"spec": spec})))
    assert owned_paths(cluster)["one"] == wanted
    for key in spec.keys() & {"numeric", "flag", "atomicList", "atomicStruct"}:
        assert cluster.spec[key] == spec[key]
    assert set(spec.get("map", ())) <= set(cluster.spec.get("map", ()))
    assert set(spec.get("set", ())) <= set(cluster.spec.get("set", ()))


@unhurried
@given(HISTORIES, SPECS)
def test_without_force_an_apply_conflicts_or_takes_from_nobody(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, history)
    before = copied(cluster.live)
    owned = owned_paths(cluster) if before else {}
    conflicts: tuple[Conflict, ...] = ()
    try:
        cluster.apply("three", spec)
    except ApplyConflict as refusal:
        conflicts = refusal.conflicts
    if conflicts:
        assert all(each.path in owned[each.owner.manager] for each in conflicts)
        assert cluster.live == before
    else:
        assert {name: owned_paths(cluster)[name] for name in owned} == owned


@unhurried
@given(HISTORIES, SPECS)
def test_leaving_removes_exactly_what_nobody_else_owns(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    cluster.apply("three", spec, force=True)
    shape = shape_of(cluster.schema)
    everything = field_set(shape, {"spec": cluster.spec})
    entries = cluster.live["metadata"]["managedFields"]
    alone = difference(
        next(each["fieldsV1"] for each in entries if each["manager"] == "three"),
        shared(each["fieldsV1"] for each in entries if each["manager"] != "three"),
    )
    cluster.apply("three", {"string": "always"}, force=True)
    rest = set(paths(field_set(shape, {"spec": cluster.spec})))
    gone = set(paths(alone)) - {("f:spec", "f:string")}
    assert not rest & {
        path for path in gone if not any(path == other[: len(path)] for other in rest)
    }
    assert rest >= set(paths(everything)) - set(paths(alone)) - {
        path for path in paths(everything) if any(path[: len(each)] == each for each in gone)
    }


@unhurried
@given(HISTORIES)
def test_an_update_that_changes_nothing_keeps_the_record(cluster: Any, history: Any) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    before = copied(cluster.live)
    cluster.update("somebody else", copied(cluster.spec))
    assert cluster.live == before


@unhurried
@given(HISTORIES, SPECS)
def test_every_field_that_changed_belongs_to_who_changed_it(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    before = cluster.live
    cluster.update("changer", copied(spec))
    if cluster.spec == before["spec"]:
        return
    for key in spec.keys() & {"numeric", "flag", "atomicList"}:
        path = ("f:spec", f"f:{key}")
        if before["spec"].get(key) != spec[key]:
            owners = {name for name, owned in owned_paths(cluster).items() if path in owned}
            assert owners == {"changer"}


@unhurried
@given(HISTORIES, SPECS)
def test_times_alone_are_not_a_change(cluster: Any, history: Any, spec: Any) -> None:
    replay(cluster, [*history, ("one", spec)])
    later = copied(cluster.live)
    for entry in later["metadata"]["managedFields"]:
        entry["time"] = "2030-01-01T00:00:00Z"
    keep_times(cluster.live, later)
    assert later == cluster.live

"""Invariants of server-side apply, for any history of managers."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.field_manager import (
    ApplyConflict,
    FieldConflict,
    applied_fields,
    compile_merge_schema,
    keep_unchanged_times,
)
from kilonova.local.apiserver.field_manager.field_sets import difference, iterate_paths, union_all
from tests.harness.campaigns import limit_examples

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


# No value is empty: Kubernetes turns a map or list that becomes empty into null.
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

slow_settings = settings(
    deadline=None,
    max_examples=limit_examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def replay(cluster: Any, history: list[tuple[str, Any]]) -> None:
    cluster.live = None
    cluster.drops_nulls = True
    for manager, spec in history:
        if manager == "updater":
            cluster.update(manager, deep_copy(spec))
        else:
            cluster.apply(manager, spec, force=True)


def owned_paths(cluster: Any) -> dict[str, set[tuple[str, ...]]]:
    entries = cluster.live["metadata"].get("managedFields", ())
    return {each["manager"]: set(iterate_paths(each["fieldsV1"])) for each in entries}


@slow_settings
@given(HISTORIES, SPECS)
def test_apply_is_idempotent(cluster: Any, history: Any, spec: Any) -> None:
    replay(cluster, history)
    cluster.apply("one", spec, force=True)
    first_pass = deep_copy(cluster.live)
    cluster.apply("one", spec)
    assert cluster.live == first_pass


@slow_settings
@given(HISTORIES, SPECS)
def test_forced_apply_owns_its_fields_and_values(cluster: Any, history: Any, spec: Any) -> None:
    replay(cluster, history)
    cluster.apply("one", spec, force=True)
    merge_schema = compile_merge_schema(cluster.schema)
    expected = set(iterate_paths(applied_fields(merge_schema, {"spec": spec})))
    assert owned_paths(cluster)["one"] == expected
    for key in spec.keys() & {"numeric", "flag", "atomicList", "atomicStruct"}:
        assert cluster.spec[key] == spec[key]
    assert set(spec.get("map", ())) <= set(cluster.spec.get("map", ()))
    assert set(spec.get("set", ())) <= set(cluster.spec.get("set", ()))


@slow_settings
@given(HISTORIES, SPECS)
def test_unforced_apply_conflicts_or_takes_no_ownership(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, history)
    before = deep_copy(cluster.live)
    owned = owned_paths(cluster) if before else {}
    conflicts: tuple[FieldConflict, ...] = ()
    try:
        cluster.apply("three", spec)
    except ApplyConflict as raised:
        conflicts = raised.conflicts
    if conflicts:
        assert all(each.path in owned[each.owner.manager] for each in conflicts)
        assert cluster.live == before
    else:
        assert {name: owned_paths(cluster)[name] for name in owned} == owned


@slow_settings
@given(HISTORIES, SPECS)
def test_empty_apply_removes_exactly_what_no_other_manager_owns(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    cluster.apply("three", spec, force=True)
    merge_schema = compile_merge_schema(cluster.schema)
    everything = applied_fields(merge_schema, {"spec": cluster.spec})
    entries = cluster.live["metadata"]["managedFields"]
    only_owned = difference(
        next(each["fieldsV1"] for each in entries if each["manager"] == "three"),
        union_all(each["fieldsV1"] for each in entries if each["manager"] != "three"),
    )
    cluster.apply("three", {"string": "always"}, force=True)
    rest = set(iterate_paths(applied_fields(merge_schema, {"spec": cluster.spec})))
    gone = set(iterate_paths(only_owned)) - {("f:spec", "f:string")}
    assert not rest & {
        path for path in gone if not any(path == other[: len(path)] for other in rest)
    }
    assert rest >= set(iterate_paths(everything)) - set(iterate_paths(only_owned)) - {
        path
        for path in iterate_paths(everything)
        if any(path[: len(each)] == each for each in gone)
    }


@slow_settings
@given(HISTORIES)
def test_update_without_changes_keeps_managed_fields(cluster: Any, history: Any) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    before = deep_copy(cluster.live)
    cluster.update("somebody else", deep_copy(cluster.spec))
    assert cluster.live == before


@slow_settings
@given(HISTORIES, SPECS)
def test_changed_field_belongs_to_the_manager_that_changed_it(
    cluster: Any, history: Any, spec: Any
) -> None:
    replay(cluster, [*history, ("updater", {"string": "always"})])
    before = cluster.live
    cluster.update("changer", deep_copy(spec))
    if cluster.spec == before["spec"]:
        return
    for key in spec.keys() & {"numeric", "flag", "atomicList"}:
        path = ("f:spec", f"f:{key}")
        if before["spec"].get(key) != spec[key]:
            owners = {name for name, owned in owned_paths(cluster).items() if path in owned}
            assert owners == {"changer"}


@slow_settings
@given(HISTORIES, SPECS)
def test_new_entry_times_alone_are_not_a_change(cluster: Any, history: Any, spec: Any) -> None:
    replay(cluster, [*history, ("one", spec)])
    later = deep_copy(cluster.live)
    for entry in later["metadata"]["managedFields"]:
        entry["time"] = "2030-01-01T00:00:00Z"
    keep_unchanged_times(cluster.live, later)
    assert later == cluster.live

"""The store against a model, for any sequence of writes and restarts."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.local.apiserver.registry.encoding import read_entry
from kilonova.local.apiserver.storage import (
    Entry,
    EventType,
    PutEntry,
    RemoveEntry,
    RevisionLog,
    RevisionStore,
)
from tests.harness.campaigns import limit_examples

KEYS = st.sampled_from(["a/1", "a/2", "b/1", "b/2"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


def make(key: str, rv: int, value: int) -> Entry:
    body = msgspec.json.encode({"metadata": {"uid": key, "resourceVersion": str(rv)}, "v": value})
    return Entry(key, rv, body, key, {}, ())


def opened(path: Path) -> RevisionStore:
    return RevisionStore(
        RevisionLog(path), lambda _, key, rv, body: read_entry(key, rv, body), lambda: 0.0
    )


async def run_operations(path: Path, steps: list[tuple[str, str, int]]) -> None:
    store = opened(path)
    model: dict[str, int] = {}
    history: list[dict[str, int]] = [{}]
    versions = [store.revision]
    for action, key, value in steps:
        if action == "restart":
            await store.close()
            store = opened(path)
            assert store.revision == versions[-1]
            continue
        if action == "remove" and key not in model:
            continue

        def decide(
            current: Entry | None, rv: int, action: str = action, key: str = key, value: int = value
        ) -> PutEntry | RemoveEntry:
            assert (current is not None) == (key in model)
            result = make(key, rv, value)
            return RemoveEntry(result) if action == "remove" else PutEntry(result)

        entry = await store.write("things", key, decide)
        assert entry is not None
        assert entry.rv > versions[-1]
        if action == "remove":
            del model[key]
        else:
            model[key] = value
        history.append(dict(model))
        versions.append(entry.rv)
        found = store.collection("things").entries_by_field("v", str(value), _value)
        assert [each.key for each in found] == sorted(k for k, v in model.items() if v == value)
    things = store.collection("things")
    assert {each.key: each.decode()["v"] for each in things.range_entries("")} == model
    for version, then in zip(versions, history, strict=True):
        assert _as_of(store, version) == then
        replayed = dict(then)
        for event in things.events_since(things.cursor_after_revision(version)):
            if event.type is EventType.DELETED:
                del replayed[event.entry.key]
            else:
                assert (event.type is EventType.MODIFIED) == (event.entry.key in replayed)
                replayed[event.entry.key] = event.entry.decode()["v"]
        assert replayed == model, "a watch from any version ends at the present"
    await store.close()


def _value(entry: Entry) -> str:
    return str(entry.decode()["v"])


def _as_of(store: RevisionStore, version: int) -> dict[str, int]:
    things = store.collection("things")
    changed = things.changes_since_revision(version)
    now = {each.key: each for each in things.range_entries("") if each.key not in changed}
    then = {key: each for key, each in changed.items() if each is not None}
    return {key: each.decode()["v"] for key, each in {**now, **then}.items()}


@settings(max_examples=limit_examples(60), deadline=None)
@given(STEPS)
def test_state_history_and_watches_agree_with_a_plain_dictionary(
    steps: list[tuple[str, str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(run_operations(Path(folder) / "store.db", steps))

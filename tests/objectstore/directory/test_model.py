"""Random operations on a directory, compared with a dictionary."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.objectstore import (
    IF_ABSENT,
    DirectoryStore,
    NotFound,
    ObjectStore,
    Precondition,
    PreconditionFailed,
    if_match,
)
from tests.harness.campaigns import limit_examples

KEYS = ("a.b", "a/b", "a/c/d", "a/c/e", "a0", "b")
keys = st.sampled_from(KEYS)
operations = st.lists(
    st.tuples(st.just("put"), keys)
    | st.tuples(st.just("create"), keys)
    | st.tuples(st.just("swap"), keys)
    | st.tuples(st.just("swap stale"), keys)
    | st.tuples(st.just("delete"), keys),
    max_size=12,
)


@settings(max_examples=limit_examples(60))
@given(operations, st.integers(1, 4))
def test_directory_behaves_as_a_dictionary(steps: list[tuple[str, str]], page: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(DirectoryStore(Path(folder)), steps, page))


async def compare(store: ObjectStore, steps: list[tuple[str, str]], page: int) -> None:
    expected: dict[str, bytes] = {}
    etags: dict[str, list[str]] = {key: ["never"] for key in KEYS}
    for number, (action, key) in enumerate(steps):
        body = f"{number}".encode()
        if action == "delete":
            await store.delete(key)
            expected.pop(key, None)
            continue
        condition, allowed = get_condition(action, key in expected, etags[key])
        try:
            etags[key].append((await store.put(key, body, condition)).etag)
        except PreconditionFailed:
            assert not allowed
        else:
            assert allowed
            expected[key] = body
    for key in KEYS:
        try:
            assert (await store.get(key)).body == expected.get(key)
        except NotFound:
            assert key not in expected
    assert await list_by_page(store, page) == sorted(expected)


def get_condition(action: str, exists: bool, etags: list[str]) -> tuple[Precondition | None, bool]:
    if action == "create":
        return IF_ABSENT, not exists
    if action == "swap":
        return if_match(etags[-1]), exists
    if action == "swap stale":
        return if_match(etags[-2] if len(etags) > 1 else etags[0]), False
    return None, True


async def list_by_page(store: ObjectStore, size: int) -> list[str]:
    found: list[str] = []
    after = ""
    while True:
        page = await store.list_page("", after, size)
        found += [each.key for each in page.objects]
        if not page.next_after:
            return found
        after = page.next_after

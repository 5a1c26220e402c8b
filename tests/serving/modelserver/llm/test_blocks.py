"""Blocks of the KV cache."""

from hypothesis import given
from hypothesis import strategies as st

from kilonova.serving.modelserver.llm.blocks import KvBlocks, compute_digests

LONG = list(range(40))


def test_digests_follow_from_all_tokens_before() -> None:
    digests = compute_digests(LONG, 16)
    assert len(digests) == 2
    assert compute_digests(LONG[:32], 16) == digests
    changed = compute_digests([7, *LONG[1:]], 16)
    assert not set(changed) & set(digests)


def test_second_sequence_shares_the_prefix_of_the_first() -> None:
    blocks = KvBlocks(8, 16)
    digests = compute_digests(LONG, 16)
    first = blocks.acquire(digests, 4)
    assert first is not None
    assert first.cached == 0
    blocks.record(first.blocks, digests)
    second = blocks.acquire(digests, 4)
    assert second is not None
    assert (second.cached, second.blocks[:2]) == (2, first.blocks[:2])
    assert blocks.used == 6
    blocks.release(first.blocks)
    blocks.release(second.blocks)
    assert blocks.used == 0


def test_prefix_is_kept_until_its_block_is_needed() -> None:
    blocks = KvBlocks(4, 16)
    digests = compute_digests(LONG, 16)
    first = blocks.acquire(digests, 3)
    assert first is not None
    blocks.record(first.blocks, digests)
    blocks.release(first.blocks)
    assert blocks.acquire([], 5) is None
    other = blocks.acquire([], 3)  # the first block of the prefix is evicted last
    assert other is not None
    again = blocks.acquire(digests, 1)
    assert again is not None
    assert again.cached == 1
    assert blocks.acquire([], 1) is None


@st.composite
def prompts(draw: st.DrawFn) -> list[int]:
    common = draw(st.sampled_from([(), (1, 1, 1, 1), (1, 1, 1, 1, 2, 2, 2, 2)]))
    return [*common, *draw(st.lists(st.integers(0, 2), max_size=9))]


@given(st.lists(st.tuples(prompts(), st.integers(0, 3)), max_size=40), st.integers(1, 12))
def test_blocks_hold_what_their_sequences_need(
    steps: list[tuple[list[int], int]], count: int
) -> None:
    """Whatever comes and goes: a block has one content, no sequence loses a block, and all blocks
    are free in the end."""
    size = 2
    blocks = KvBlocks(count, size)
    content: dict[int, bytes] = {}
    running: list[tuple[list[int], list[bytes]]] = []
    for prompt, leaving in steps:
        digests = compute_digests(prompt, size)
        lease = blocks.acquire(digests, -(-(len(prompt) + 1) // size))
        if lease is not None:
            assert [content[each] for each in lease.blocks[: lease.cached]] == digests[
                : lease.cached
            ]
            held = {each for owned, _ in running for each in owned}
            assert not held & set(lease.blocks[lease.cached :])
            content.update(zip(lease.blocks, digests, strict=False))
            blocks.record(lease.blocks, digests)
            running.append((lease.blocks, digests))
        for owned, digests in running:
            assert [content[each] for each in owned[: len(digests)]] == digests
        if running and leaving == 0:
            blocks.release(running.pop(0)[0])
        assert blocks.used == len({each for owned, _ in running for each in owned})
    for owned, _ in running:
        blocks.release(owned)
    assert blocks.used == 0
    assert blocks.acquire([], count) is not None

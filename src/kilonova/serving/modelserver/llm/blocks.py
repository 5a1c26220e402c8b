"""The blocks of a KV cache, and which of them hold a prefix that a new prompt shares. Pure.

A block holds the keys and values of `size` tokens. A full block has a **digest** of its tokens and
of all before them: a prompt that begins with the same tokens uses the same block, and need not
compute it. Blocks without a sequence are kept until others need them, the least recently used
first.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

Digest = bytes


class Lease(NamedTuple):
    """The blocks of a sequence, in order; the first `cached` ones hold its prefix already."""

    blocks: list[int]
    cached: int


def compute_digests(tokens: Sequence[int], size: int) -> list[Digest]:
    """The digests of the full blocks of a sequence."""
    digests: list[Digest] = []
    previous = b""
    for start in range(0, len(tokens) - size + 1, size):
        previous = compute_digest(previous, tokens[start : start + size])
        digests.append(previous)
    return digests


def compute_digest(previous: Digest, tokens: Sequence[int]) -> Digest:
    """The digest of tokens behind those of another digest."""
    text = ",".join(map(str, tokens))
    return blake2b(previous + text.encode(), digest_size=16).digest()


class KvBlocks:
    """All blocks of a cache."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._free = list(range(count - 1, -1, -1))
        self._users = [0] * count
        self._digests: dict[int, Digest] = {}
        self._by_digest: dict[Digest, int] = {}
        self._unused: OrderedDict[int, None] = OrderedDict()
        """Blocks with a prefix and without a sequence, least recently used first."""

    @property
    def used(self) -> int:
        """Blocks that sequences hold."""
        return self.count - len(self._free) - len(self._unused)

    def acquire(self, prefix: Sequence[Digest], needed: int) -> Lease | None:
        """Blocks for a sequence, as many of the prefix as there are; None if there are too few."""
        cached: list[int] = []
        for digest in prefix[:needed]:
            block = self._by_digest.get(digest)
            if block is None:
                break
            cached.append(block)
        fresh = needed - len(cached)
        available = len(self._free) + len(self._unused)
        if fresh > available - sum(1 for block in cached if block in self._unused):
            return None
        for block in cached:
            self._users[block] += 1
            self._unused.pop(block, None)
        blocks = cached + [self._take() for _ in range(fresh)]
        return Lease(blocks, len(cached))

    def record(self, blocks: Sequence[int], digests: Sequence[Digest]) -> None:
        """The first blocks of a sequence hold the tokens of these digests now."""
        for block, digest in zip(blocks, digests, strict=False):
            if block not in self._digests and digest not in self._by_digest:
                self._digests[block] = digest
                self._by_digest[digest] = block

    def release(self, blocks: Sequence[int]) -> None:
        """The sequence has ended. Its last blocks are the first that others get."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block]:
                continue
            if block in self._digests:
                self._unused[block] = None
            else:
                self._free.append(block)

    def _take(self) -> int:
        if self._free:
            block = self._free.pop()
        else:
            block, _ = self._unused.popitem(last=False)
            del self._by_digest[self._digests.pop(block)]
        self._users[block] = 1
        return block

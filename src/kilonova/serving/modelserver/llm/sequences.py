"""Which sequences run, and what each step computes: continuous batching. Pure.

A sequence waits until a slot and all blocks that it may need are free; it never loses them before
its end. In every step each running sequence whose prompt is computed gets one token; what is left
of the step's budget goes to prompts, in order of arrival, in pieces (chunked prefill).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kilonova.serving.modelserver.llm.blocks import (
    Digest,
    KvBlocks,
    compute_digest,
    compute_digests,
)


@dataclass(eq=False, slots=True)
class TokenSequence:
    """A prompt and what is generated for it."""

    prompt: Sequence[int]
    max_tokens: int
    seed: int
    output: list[int] = field(default_factory=list[int])
    blocks: list[int] = field(default_factory=list[int])
    cached: int = 0
    """Tokens of the prompt that were in the cache."""
    computed: int = 0
    """Tokens whose keys and values are in the blocks."""
    is_cancelled: bool = False
    digests: list[Digest] = field(default_factory=list[Digest])
    """Of the full blocks of the prompt."""
    fingerprint: Digest = b""
    """Of the whole prompt."""

    @property
    def is_prefilled(self) -> bool:
        return self.computed >= len(self.prompt)


class Prefill(NamedTuple):
    """A piece of a prompt to compute."""

    sequence: TokenSequence
    start: int
    end: int

    @property
    def is_last(self) -> bool:
        """Whether the sequence gets its first token in this step."""
        return self.end == len(self.sequence.prompt)


class Step(NamedTuple):
    """What is computed together."""

    prefills: list[Prefill]
    decodes: list[TokenSequence]

    @property
    def prompt_tokens(self) -> int:
        return sum(each.end - each.start for each in self.prefills)

    @property
    def receivers(self) -> list[TokenSequence]:
        """The sequences that get a token, in the order of the step's result."""
        return [*(each.sequence for each in self.prefills if each.is_last), *self.decodes]


class SequenceScheduler:
    """The sequences of a model."""

    def __init__(self, blocks: KvBlocks, slots: int, max_waiting: int, budget: int) -> None:
        self.blocks = blocks
        self.waiting: deque[TokenSequence] = deque()
        self.running: list[TokenSequence] = []
        self._slots = slots
        self._max_waiting = max_waiting
        self._budget = budget

    @property
    def is_full(self) -> bool:
        """Whether a further sequence is refused."""
        return len(self.running) + len(self.waiting) >= self._slots + self._max_waiting

    def add(self, sequence: TokenSequence) -> None:
        """Let a sequence wait for its turn."""
        prompt, size = sequence.prompt, self.blocks.size
        sequence.digests = compute_digests(prompt, size)
        rest = prompt[len(sequence.digests) * size :]
        sequence.fingerprint = compute_digest(b"".join(sequence.digests[-1:]), rest)
        self.waiting.append(sequence)

    def plan_step(self) -> Step | None:
        """What is computed next; None if there is nothing."""
        self._drop_cancelled()
        self._admit()
        decodes = [each for each in self.running if each.is_prefilled]
        left = max(1, self._budget - len(decodes))
        prefills: list[Prefill] = []
        for sequence in self.running:
            if sequence.is_prefilled or not left:
                continue
            end = min(len(sequence.prompt), sequence.computed + left)
            prefills.append(Prefill(sequence, sequence.computed, end))
            left -= end - sequence.computed
        return Step(prefills, decodes) if prefills or decodes else None

    def complete_step(self, step: Step, tokens: Sequence[int]) -> None:
        """The step has been computed, with these tokens for its receivers."""
        for prefill in step.prefills:
            sequence = prefill.sequence
            sequence.computed = prefill.end
            full = prefill.end // self.blocks.size
            self.blocks.record(sequence.blocks, sequence.digests[:full])
        for sequence in step.decodes:
            sequence.computed += 1
        for sequence, token in zip(step.receivers, tokens, strict=True):
            sequence.output.append(token)

    def finish(self, sequence: TokenSequence) -> None:
        """The sequence has ended: what it computed may be the prefix of a later prompt."""
        self.running.remove(sequence)
        tokens = [*sequence.prompt, *sequence.output][: sequence.computed]
        self.blocks.record(sequence.blocks, compute_digests(tokens, self.blocks.size))
        self.blocks.release(sequence.blocks)

    def _drop_cancelled(self) -> None:
        for sequence in [each for each in self.running if each.is_cancelled]:
            self.finish(sequence)
        if any(each.is_cancelled for each in self.waiting):
            self.waiting = deque(each for each in self.waiting if not each.is_cancelled)

    def _admit(self) -> None:
        size = self.blocks.size
        while self.waiting and len(self.running) < self._slots:
            sequence = self.waiting[0]
            # The last token of the prompt is computed in any case: the first answer comes from it.
            prefix = sequence.digests[: (len(sequence.prompt) - 1) // size]
            needed = ceil((len(sequence.prompt) + sequence.max_tokens) / size)
            lease = self.blocks.acquire(prefix, needed)
            if lease is None:
                return
            self.waiting.popleft()
            sequence.blocks = lease.blocks
            sequence.cached = sequence.computed = lease.cached * size
            self.running.append(sequence)

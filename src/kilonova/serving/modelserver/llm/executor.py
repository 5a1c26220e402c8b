"""What computes the steps of a language model, and one that only takes the time for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from kilonova.serving.modelserver.llm.sequences import Step, TokenSequence
from kilonova.serving.modelserver.llm.words import TOKENS

_PAUSE_SECONDS = 0.01
"""A step that begins later than this after the one before it does not continue it."""


class StepExecutor(Protocol):
    """Computes steps, one at a time."""

    async def execute(self, step: Step) -> Sequence[int]:
        """The next tokens of `step.receivers`."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class StepTimes:
    """How long a step takes, in seconds: the sum of its parts."""

    prefill: float
    """For each token of prompts."""
    decode: float
    """For all sequences that get a further token together."""
    decode_sequence: float
    """For each of them."""

    def compute(self, step: Step) -> float:
        decode = self.decode if step.decodes else 0.0
        return step.prompt_tokens * self.prefill + decode + len(step.decodes) * self.decode_sequence


class TimedExecutor:
    """Takes the time of a model on a GPU, and chooses words by a digest of the text so far.

    A step ends when it is said to end, counted from the end of the one before it if that was just
    now: the delay with which a timer fires does not add up.
    """

    def __init__(self, model: str, times: StepTimes) -> None:
        self._model = model.encode()
        self._times = times
        self._end = 0.0

    async def execute(self, step: Step) -> Sequence[int]:
        seconds = self._times.compute(step)
        loop = asyncio.get_running_loop()
        now = loop.time()
        begin = self._end if 0 <= now - self._end < _PAUSE_SECONDS else now
        self._end = begin + seconds
        tokens = [self._choose(each) for each in step.receivers]
        await asyncio.sleep(max(0.0, self._end - loop.time()))
        return tokens

    def close(self) -> None:
        """Nothing is held."""

    def _choose(self, sequence: TokenSequence) -> int:
        """From the model, the seed, the prompt and the position: whatever else runs, the same
        request gets the same words."""
        text = b"%b|%d|%b|%d" % (
            self._model,
            sequence.seed,
            sequence.fingerprint,
            len(sequence.output),
        )
        return TOKENS[int.from_bytes(blake2b(text, digest_size=8).digest()) % len(TOKENS)]

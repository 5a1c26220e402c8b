"""`transformer`: the language model on PyTorch of `kilonova serve-model`, on a GPU or the CPU.

Compares the words of sequences that share steps, and whose prompts are computed in pieces and from
the cache, with those of a model that computes every word from the beginning; then measures it.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from kilonova.kube.observability.metrics import Metrics
from kilonova.serving.modelserver.llm.build import read_llm
from kilonova.serving.modelserver.llm.language_model import LanguageModel
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.llm.sequences import TokenSequence
from kilonova.serving.modelserver.llm.words import TOKENS
from kilonova.serving.modelserver.models.options import Options
from tools.hardware.transcript import Transcript

_SMALL = "layers=4,width=1024,heads=8,dtype=float32"
_LENGTHS = (1, 15, 16, 17, 40, 100)
_WORDS = 12


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.hardware transformer")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    parser.add_argument("--device", default="auto", help="as PyTorch names it")
    parser.add_argument(
        "--shape",
        default="layers=4,width=256,heads=4",
        metavar="OPTIONS",
        help="the model that is measured: layers=32,width=4096,heads=32 has 6.6 billion weights",
    )
    parser.add_argument("--prompt", type=int, default=2048, help="tokens of measured prompts")
    parser.add_argument("--words", type=int, default=64, help="words of measured answers")
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    return asyncio.run(_run(transcript, options))


async def _run(transcript: Transcript, options: argparse.Namespace) -> int:
    device = f"device={options.device}"
    transcript.heading("Words")
    alone = await _load(f"{_SMALL},{device},cache=16384,block=1024")
    shared = await _load(f"{_SMALL},{device},chunk=24,slots=8,cache=16384")
    expected = {each: await _recompute(alone, _prompt(each)) for each in _LENGTHS}
    for attempt in ("first", "again, from the cache"):
        sequences = {each: TokenSequence(_prompt(each), _WORDS, 0) for each in _LENGTHS}
        await asyncio.gather(*(_generate(shared, each) for each in sequences.values()))
        for length, sequence in sequences.items():
            transcript.check(
                f"prompt of {length} tokens, {attempt}",
                sequence.output[:_WORDS] == expected[length],
                f"{sequence.cached} tokens cached",
            )
    different = len({tuple(each) for each in expected.values()})
    # A model with random weights may answer two of them alike.
    transcript.check("answers depend on prompts", different > 2, f"{different} different ones")
    await asyncio.gather(alone.drain(), shared.drain())
    transcript.heading(f"Speed: {options.shape}, prompts of {options.prompt} tokens")
    model = await _load(f"{options.shape},{device},slots=64,cache=131072,chunk=8192")
    await _measure(transcript, model, options.prompt, options.words)
    await model.drain()
    return transcript.summary()


async def _measure(transcript: Transcript, model: LanguageModel, prompt: int, words: int) -> None:
    await _generate(model, TokenSequence(_prompt(64, 1 << 20), 4, 0))  # the first steps are slow
    rows: list[tuple[object, ...]] = []
    for count in (1, 8, 32):
        sequences = [
            TokenSequence(_prompt(prompt, 1000 * count + each), words, 0) for each in range(count)
        ]
        first, total = await _time(model, sequences)
        cached = [TokenSequence([*each.prompt, 1], 1, 0) for each in sequences]
        from_cache, _ = await _time(model, cached)
        decode = max(total - first, 1e-9)
        rows.append(
            (
                count,
                f"{count * prompt / first:,.0f}",
                f"{count * (words - 1) / decode:,.0f}",
                f"{decode / (words - 1) * 1000:.2f}",
                f"{first * 1000:.1f}",
                f"{from_cache * 1000:.1f}",
            )
        )
    transcript.table(
        (
            "sequences",
            "prompt tokens/s",
            "words/s",
            "ms a word",
            "ms to all first words",
            "ms from the cache",
        ),
        rows,
    )


async def _time(model: LanguageModel, sequences: list[TokenSequence]) -> tuple[float, float]:
    """Seconds until all sequences have their first word, and until they have all."""
    begin = time.perf_counter()
    firsts = await asyncio.gather(*(_generate(model, each) for each in sequences))
    return max(firsts) - begin, time.perf_counter() - begin


async def _generate(model: LanguageModel, sequence: TokenSequence) -> float:
    """Generate all words; when the first one was there."""
    first = 0.0
    async for _ in model.generate(sequence, ()):
        first = first or time.perf_counter()
    return first


async def _recompute(model: LanguageModel, prompt: list[int]) -> list[int]:
    """The words, each computed from the beginning; blocks are so large that none is cached."""
    words: list[int] = []
    for _ in range(_WORDS):
        sequence = TokenSequence([*prompt, *words], 1, 0)
        await _generate(model, sequence)
        words += sequence.output
    return words


async def _load(options: str) -> LanguageModel:
    text = f"measured,backend=torch,queue=1024,{options}"
    loaded = await read_llm(Options("--llm", text), LlmMetrics(Metrics()))()
    assert isinstance(loaded, LanguageModel)
    return loaded


def _prompt(length: int, start: int = 0) -> list[int]:
    """Tokens that begin differently for each start."""
    return [(start * 7919 + each * 104729) % (1 << 32) for each in range(length - 1)] + [TOKENS[0]]

"""A decoder-only transformer on PyTorch, for `--llm NAME,backend=torch`.

It computes what a model of its size computes, on CUDA or the CPU, with random weights from a seed,
so that nothing is downloaded.

Keys and values are in the blocks that the scheduler gave to each sequence, so a prompt whose prefix
is in the cache is computed from there on. All tokens of a step go through the layers together;
attention is computed for all sequences that get a further token at once, and for each prompt.
PyTorch is no dependency of Kilonova: it is imported when such a model is loaded. The words are the
most likely ones (`seed` of a request has no effect).
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kilonova.serving.modelserver.errors import ModelLoadFailed
from kilonova.serving.modelserver.llm.executor import StepExecutor
from kilonova.serving.modelserver.llm.language_model import LlmSettings
from kilonova.serving.modelserver.llm.sequences import Step, TokenSequence
from kilonova.serving.modelserver.llm.words import TOKENS
from kilonova.serving.modelserver.models.options import Options

_DTYPES = ("auto", "float32", "float16", "bfloat16")
_ROPE_BASE = 10000.0
_WEIGHT_SCALE = 0.02
_MAX_LAYERS = 1024
_MAX_WIDTH = 1 << 17
_MAX_HEADS = 1024
_MAX_SEED = (1 << 63) - 1
"""Of PyTorch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSettings:
    """The shape of the model, and where it runs."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    device: str
    """As PyTorch names it; `auto` is cuda if there is one."""
    dtype: str
    seed: int


def read_transformer(
    options: Options, settings: LlmSettings
) -> Callable[[], Awaitable[StepExecutor]]:
    """How the executor is built; `WrongUsage` for an invalid option."""
    shape = TransformerSettings(
        layers=options.read_int("layers", 4, maximum=_MAX_LAYERS),
        width=options.read_int("width", 256, maximum=_MAX_WIDTH),
        heads=options.read_int("heads", 4, maximum=_MAX_HEADS),
        vocabulary=options.read_int("vocabulary", 32000, len(TOKENS)),
        device=options.read_text("device", "auto"),
        dtype=options.read_text("dtype", "auto", _DTYPES),
        seed=options.read_int("weights", 0, 0, _MAX_SEED),
    )
    if shape.width % (2 * shape.heads):
        raise options.invalid(f"width is {shape.width}: it must be a multiple of 2 × heads")

    async def build() -> StepExecutor:
        try:
            torch = importlib.import_module("torch")
        except ModuleNotFoundError as error:
            raise ModelLoadFailed("PyTorch is not installed: pip install torch") from error
        slots = settings.cache // settings.block * settings.block
        try:
            return await asyncio.to_thread(_Transformer, torch, shape, settings.block, slots)
        except RuntimeError as error:  # too little memory, no such device
            raise ModelLoadFailed(f"PyTorch: {error}") from error

    return build


@dataclass(frozen=True, slots=True)
class _Batch:
    """The tokens of a step as tensors: prompts first, then one for each decoded sequence."""

    tokens: Any
    positions: Any
    slots: Any
    """Where the keys and values of each token go."""
    prefills: list[tuple[int, int, Any, Any]]
    """Of each prompt: its first token in the batch, its end, the slots of all its tokens so far,
    and which of these each of its tokens sees."""
    decoded: int
    """The first token of decoded sequences."""
    decode_slots: Any
    decode_mask: Any
    receivers: list[int]
    """The tokens of the batch that a next word follows."""


class _Transformer:
    """Executes steps in a thread of its own."""

    def __init__(self, torch: Any, shape: TransformerSettings, block: int, slots: int) -> None:
        self._torch = torch
        self._shape = shape
        self._block = block
        device = shape.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = shape.dtype
        if dtype == "auto":
            dtype = "bfloat16" if device.startswith("cuda") else "float32"
        # cuDNN's attention compiles a plan for each shape, and almost every step has another one.
        torch.backends.cuda.enable_cudnn_sdp(False)
        self._device = torch.device(device)
        self._dtype = getattr(torch, dtype)
        self._generator = torch.Generator(device=self._device).manual_seed(shape.seed)
        width, head = shape.width, shape.width // shape.heads
        self._embedding = self._draw(shape.vocabulary, width)
        self._layers = [
            {
                "qkv": self._draw(width, 3 * width),
                "out": self._draw(width, width),
                "up": self._draw(width, 4 * width),
                "down": self._draw(4 * width, width),
            }
            for _ in range(shape.layers)
        ]
        cache = (shape.layers, slots, shape.heads, head)
        self._keys = torch.zeros(cache, device=self._device, dtype=self._dtype)
        self._values = torch.zeros(cache, device=self._device, dtype=self._dtype)
        exponents = torch.arange(0, head, 2, device=self._device, dtype=torch.float32) / head
        self._frequencies = _ROPE_BASE**-exponents
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="transformer")

    async def execute(self, step: Step) -> Sequence[int]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, step)

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def _draw(self, *size: int) -> Any:
        weights = self._torch.randn(
            size, generator=self._generator, device=self._device, dtype=self._torch.float32
        )
        return (weights * _WEIGHT_SCALE).to(self._dtype)

    def _run(self, step: Step) -> list[int]:
        torch = self._torch
        with torch.inference_mode():
            batch = self._build_batch(step)
            hidden = self._embedding[batch.tokens]
            angles = batch.positions[:, None] * self._frequencies[None, :]
            rotation = (angles.cos()[:, None, :], angles.sin()[:, None, :])
            for layer, weights in enumerate(self._layers):
                attended = self._attend(layer, weights, self._normalise(hidden), rotation, batch)
                hidden = hidden + attended @ weights["out"]
                expanded = torch.nn.functional.silu(self._normalise(hidden) @ weights["up"])
                hidden = hidden + expanded @ weights["down"]
            last = self._normalise(hidden[batch.receivers])
            # All of the vocabulary, as a model does; the words are the first of it.
            logits = last @ self._embedding.T
            chosen: list[int] = logits[:, : len(TOKENS)].argmax(dim=-1).tolist()
        return [TOKENS[index] for index in chosen]

    def _build_batch(self, step: Step) -> _Batch:
        torch, device = self._torch, self._device
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[Any] = []
        prefills: list[tuple[int, int, Any, Any]] = []
        receivers: list[int] = []
        for sequence, start, end in step.prefills:
            first = len(tokens)
            tokens += sequence.prompt[start:end]
            positions += range(start, end)
            own = self._find_slots([sequence], end)[0]
            slots.append(own[start:end])
            seen = torch.arange(end, device=device)[None, :]
            mask = seen <= torch.arange(start, end, device=device)[:, None]
            prefills.append((first, len(tokens), own, mask))
            if end == len(sequence.prompt):
                receivers.append(len(tokens) - 1)
        decoded = len(tokens)
        decode_slots = decode_mask = None
        if step.decodes:
            lengths = [sequence.computed + 1 for sequence in step.decodes]
            tokens += [sequence.output[-1] for sequence in step.decodes]
            positions += [length - 1 for length in lengths]
            receivers += range(decoded, len(tokens))
            decode_slots = self._find_slots(step.decodes, max(lengths))
            ends = torch.tensor(lengths, device=device)
            seen = torch.arange(max(lengths), device=device)[None, :]
            decode_mask = (seen < ends[:, None])[:, None, None, :]
            slots.append(decode_slots.gather(1, ends[:, None] - 1)[:, 0])
        ids = torch.tensor(tokens, device=device) % self._shape.vocabulary
        return _Batch(
            tokens=ids,
            positions=torch.tensor(positions, device=device, dtype=torch.float32),
            slots=torch.cat(slots),
            prefills=prefills,
            decoded=decoded,
            decode_slots=decode_slots,
            decode_mask=decode_mask,
            receivers=receivers,
        )

    def _find_slots(self, sequences: Sequence[TokenSequence], length: int) -> Any:
        """The places of the first tokens of each sequence in the cache; 0 beyond its blocks."""
        torch = self._torch
        count = -(-length // self._block)
        table = [
            sequence.blocks[:count] + [0] * (count - len(sequence.blocks)) for sequence in sequences
        ]
        blocks = torch.tensor(table, device=self._device)
        offsets = torch.arange(self._block, device=self._device)
        slots = blocks[:, :, None] * self._block + offsets
        return slots.reshape(len(sequences), -1)[:, :length]

    def _attend(
        self, layer: int, weights: dict[str, Any], hidden: Any, rotation: Any, batch: _Batch
    ) -> Any:
        torch, heads = self._torch, self._shape.heads
        count = hidden.shape[0]
        queries, keys, values = (
            each.reshape(count, heads, -1) for each in (hidden @ weights["qkv"]).chunk(3, dim=-1)
        )
        queries, keys = self._rotate(queries, rotation), self._rotate(keys, rotation)
        self._keys[layer, batch.slots] = keys
        self._values[layer, batch.slots] = values
        attention = torch.nn.functional.scaled_dot_product_attention
        found: list[Any] = []
        for first, end, slots, mask in batch.prefills:
            one = attention(
                queries[None, first:end].transpose(1, 2),
                self._keys[layer, slots][None].transpose(1, 2),
                self._values[layer, slots][None].transpose(1, 2),
                attn_mask=mask[None, None],
            )
            found.append(one.transpose(1, 2).reshape(end - first, -1))
        if batch.decode_slots is not None:
            all_decoded = attention(
                queries[batch.decoded :, :, None],
                self._keys[layer, batch.decode_slots].transpose(1, 2),
                self._values[layer, batch.decode_slots].transpose(1, 2),
                attn_mask=batch.decode_mask,
            )
            found.append(all_decoded.reshape(count - batch.decoded, -1))
        return torch.cat(found)

    def _rotate(self, vectors: Any, rotation: tuple[Any, Any]) -> Any:
        """Rotary positions."""
        cos, sin = rotation
        first, second = vectors.float().chunk(2, dim=-1)
        rotated = (first * cos - second * sin, first * sin + second * cos)
        return self._torch.cat(rotated, dim=-1).to(self._dtype)

    def _normalise(self, hidden: Any) -> Any:
        """Root-mean-square normalisation."""
        wide = hidden.float()
        scale = self._torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
        return (wide * scale).to(self._dtype)

"""Language models from `--llm NAME,option=value…`."""

from collections.abc import Awaitable, Callable

from kilonova.serving.modelserver.llm.executor import StepExecutor, StepTimes, TimedExecutor
from kilonova.serving.modelserver.llm.language_model import LanguageModel, LlmSettings
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.models.options import Options
from kilonova.serving.modelserver.registry import Load, Model

_PREFILL = 100e-6
_DECODE = 10e-3
_DECODE_SEQUENCE = 100e-6
_MAX_SLOTS = 65536
_MAX_CACHE = 1 << 28
_MAX_BLOCKS = 1 << 24
"""The list of so many takes half a GiB itself."""
_MAX_CONTEXT = 1 << 24
_KNOWN = "backend, slots, queue, cache, block, chunk, context, and those of the backend"


def read_llm(options: Options, metrics: LlmMetrics) -> Load:
    """How a language model is loaded; `WrongUsage` for an invalid option."""
    default = LlmSettings(name=options.name)
    settings = LlmSettings(
        name=options.name,
        slots=options.read_int("slots", default.slots, maximum=_MAX_SLOTS),
        queue=options.read_int("queue", default.queue, minimum=0),
        cache=options.read_int("cache", default.cache, maximum=_MAX_CACHE),
        block=options.read_int("block", default.block),
        chunk=options.read_int("chunk", default.chunk),
        context=options.read_int("context", default.context, maximum=_MAX_CONTEXT),
    )
    if settings.cache < settings.block:
        raise options.invalid(f"cache is {settings.cache}: it must hold a block, {settings.block}")
    if settings.cache // settings.block > _MAX_BLOCKS:
        raise options.invalid(
            f"cache is {settings.cache}: it may have {_MAX_BLOCKS} blocks, of {settings.block} each"
        )
    backend = options.read_text("backend", "timed", ("timed", "torch"))
    if backend == "torch":
        from kilonova.serving.modelserver.torch_llm import read_transformer

        build = read_transformer(options, settings)
    else:
        build = _read_timed(options, settings)
    options.require_all_read(_KNOWN)

    async def load() -> Model:
        return LanguageModel(settings, await build(), metrics)

    return load


def _read_timed(options: Options, settings: LlmSettings) -> Callable[[], Awaitable[StepExecutor]]:
    times = StepTimes(
        prefill=options.read_seconds("prefill", _PREFILL),
        decode=options.read_seconds("decode", _DECODE),
        decode_sequence=options.read_seconds("decode_sequence", _DECODE_SEQUENCE),
    )

    async def build() -> StepExecutor:
        return TimedExecutor(settings.name, times)

    return build

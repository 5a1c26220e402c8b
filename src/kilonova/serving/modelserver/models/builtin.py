"""Models without files: `identity`, `add` and `slow`."""

import asyncio
import hashlib
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import add, sub

from kilonova.serving.modelserver.models.backend import Backend
from kilonova.serving.modelserver.models.options import Options
from kilonova.serving.modelserver.models.spec import (
    DEFAULT_QUEUE_SIZE,
    ModelSpec,
    QueueSettings,
)
from kilonova.serving.modelserver.tensors import Tensor, TensorSpec, find_datatype

_PLATFORM = "kilonova"
_INT32 = find_datatype("INT32")
_ADD_SHAPE = (16,)
_SECONDS = 0.1
_WORK = bytes(1 << 20)
"""Hashed to spend time: long enough for hashlib to let other threads run."""
_MAX_INSTANCES = 1024
"""Each may have a thread."""
_QUEUE_OPTIONS = "instances, queue, batch, delay"


class _Identity:
    """Returns its input."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        (tensor,) = inputs
        return (tensor._replace(name="OUTPUT0"),)

    def close(self) -> None:
        """Nothing is held."""


class _Add:
    """Returns the sum and the difference of two tensors, as Triton's example `simple`."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        first, second = (memoryview(each.data).cast("B").cast("i") for each in inputs)
        shape = inputs[0].shape
        return tuple(
            Tensor(name, _INT32, shape, array("i", map(_wrap(operation), first, second)).tobytes())
            for name, operation in (("OUTPUT0", add), ("OUTPUT1", sub))
        )

    def close(self) -> None:
        """Nothing is held."""


class _Slow(_Identity):
    """Returns its input after a time, in which it waits or computes."""

    def __init__(self, spec: ModelSpec, seconds: float, item_seconds: float, computes: bool):
        super().__init__(spec)
        self._seconds = seconds
        self._item_seconds = item_seconds
        self._pool = ThreadPoolExecutor(spec.queue.instances) if computes else None

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        items = inputs[0].shape[0] if self.spec.queue.max_batch_size else 1
        seconds = self._seconds + items * self._item_seconds
        if self._pool is None:
            await asyncio.sleep(seconds)
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, _compute, seconds)
        return await super().execute(inputs)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)


def _compute(seconds: float) -> None:
    """Use a core for some time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(_WORK).digest()


def build_identity(options: Options) -> Backend:
    """Options: `datatype`, and those of the queue."""
    spec = _build_spec(options, "identity")
    options.require_all_read(f"datatype, {_QUEUE_OPTIONS}")
    return _Identity(spec)


def build_add(options: Options) -> Backend:
    """Options: those of the queue."""
    queue = _read_queue(options)
    options.require_all_read(_QUEUE_OPTIONS)
    shape = (-1, *_ADD_SHAPE) if queue.max_batch_size else _ADD_SHAPE
    return _Add(
        ModelSpec(
            name=options.name,
            platform=_PLATFORM,
            backend="add",
            inputs=tuple(TensorSpec(name, _INT32, shape) for name in ("INPUT0", "INPUT1")),
            outputs=tuple(TensorSpec(name, _INT32, shape) for name in ("OUTPUT0", "OUTPUT1")),
            queue=queue,
        )
    )


def build_slow(options: Options) -> Backend:
    """Options: `time` of an execution and `item_time` of each item of its batch; `work=sleep`, or
    `compute` to use a core for that time; `datatype`, and those of the queue."""
    seconds = options.read_seconds("time", _SECONDS)
    item_seconds = options.read_seconds("item_time", 0.0)
    computes = options.read_text("work", "sleep", ("sleep", "compute")) == "compute"
    spec = _build_spec(options, "slow")
    options.require_all_read(f"time, item_time, work, datatype, {_QUEUE_OPTIONS}")
    return _Slow(spec, seconds, item_seconds, computes)


BUILTIN_KINDS: dict[str, Callable[[Options], Backend]] = {
    "identity": build_identity,
    "add": build_add,
    "slow": build_slow,
}
"""How built-in models are made from their options."""


def _build_spec(options: Options, kind: str) -> ModelSpec:
    datatype = find_datatype(options.read_text("datatype", "FP32"))
    queue = _read_queue(options)
    shape = (-1, -1) if queue.max_batch_size else (-1,)
    return ModelSpec(
        name=options.name,
        platform=_PLATFORM,
        backend=kind,
        inputs=(TensorSpec("INPUT0", datatype, shape),),
        outputs=(TensorSpec("OUTPUT0", datatype, shape),),
        queue=queue,
    )


def _read_queue(options: Options) -> QueueSettings:
    batch = options.read_int("batch", 0, minimum=0)
    return QueueSettings(
        max_size=options.read_int("queue", DEFAULT_QUEUE_SIZE),
        instances=options.read_int("instances", 1, maximum=_MAX_INSTANCES),
        max_batch_size=batch,
        is_dynamic=batch > 1,
        max_delay=options.read_seconds("delay", 0.0),
    )


def _wrap(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The operation on 32 bits, as other model servers overflow."""

    def compute(first: int, second: int) -> int:
        return (operation(first, second) + 0x80000000 & 0xFFFFFFFF) - 0x80000000

    return compute

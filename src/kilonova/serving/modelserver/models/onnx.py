"""Models in ONNX's format, executed by onnxruntime."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnxruntime as untyped_onnxruntime

from kilonova.serving.modelserver.errors import ModelLoadFailed
from kilonova.serving.modelserver.models.backend import Backend
from kilonova.serving.modelserver.models.config_file import ModelFileConfig, read_config
from kilonova.serving.modelserver.models.spec import ModelSpec, QueueSettings
from kilonova.serving.modelserver.tensors import Tensor, TensorSpec, find_datatype, format_shape
from kilonova.serving.modelserver.tensors.bytes_elements import join_elements, split_elements

onnxruntime: Any = untyped_onnxruntime

_DEFAULT_BATCH = 64
"""Of a model without config.pbtxt whose first dimensions are all dynamic."""
_INLINE_NS = 200_000
"""An execution that takes less is no reason to leave the event loop: handing it to a thread takes
a good part of that, and both share a core's time anyway."""
_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}
_NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


class OnnxBackend:
    """A session of onnxruntime. Short executions run in the event loop, long ones in threads."""

    def __init__(self, session: Any, spec: ModelSpec) -> None:
        self.spec = spec
        self._session: Any = session
        self._outputs = [each.name for each in spec.outputs]
        self._pool = ThreadPoolExecutor(spec.queue.instances, thread_name_prefix=spec.name)
        self._last_ns = _INLINE_NS
        self._last_bytes = 0

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        size = sum(len(each.data) for each in inputs)
        if self._last_ns < _INLINE_NS and size <= self._last_bytes:
            return self._run(inputs, size)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._run, inputs, size)

    def close(self) -> None:
        self._pool.shutdown(wait=False)
        self._session = None

    def _run(self, inputs: Sequence[Tensor], size: int) -> Sequence[Tensor]:
        feed = {each.name: _to_array(each) for each in inputs}
        started = perf_counter_ns()
        found = self._session.run(self._outputs, feed)
        # What is decided next: a request of this size takes about as long.
        self._last_ns, self._last_bytes = perf_counter_ns() - started, size
        return [
            _to_tensor(spec, array) for spec, array in zip(self.spec.outputs, found, strict=True)
        ]


def load_onnx(name: str, version: str, folder: Path) -> Backend:
    """Load a version of a model; it takes long. `ModelLoadFailed` states why it cannot be
    loaded."""
    config = read_config(folder) or ModelFileConfig(QueueSettings(), (), ())
    path = folder / version / config.model_file
    if not path.is_file():
        raise ModelLoadFailed(f"{version}/{config.model_file} does not exist")
    session = _open_session(path, config)
    inputs = tuple(_read_spec(each) for each in session.get_inputs())
    outputs = tuple(_read_spec(each) for each in session.get_outputs())
    queue = config.queue
    if config.inputs or config.outputs or queue.max_batch_size:
        inputs = _apply_config("input", inputs, config.inputs)
        outputs = _apply_config("output", outputs, config.outputs)
        _require_batch_dimension(queue, (*inputs, *outputs))
    elif all(each.shape[:1] == (-1,) for each in (*inputs, *outputs)):
        queue = QueueSettings(
            max_batch_size=_DEFAULT_BATCH, is_dynamic=True, instances=queue.instances
        )
    return OnnxBackend(
        session,
        ModelSpec(
            name=name,
            version=version,
            platform="onnxruntime_onnx",
            backend="onnxruntime",
            inputs=inputs,
            outputs=outputs,
            queue=queue,
        ),
    )


def _open_session(path: Path, config: ModelFileConfig) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = config.threads
    # Threads that spin while they wait for work take a core from an idle server.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    if not config.is_cpu and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        providers.insert(0, "CUDAExecutionProvider")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime has a class for each of its statuses, without a base
        raise ModelLoadFailed(f"onnxruntime: {error}") from error


def _read_spec(argument: Any) -> TensorSpec:
    datatype = _DATATYPES.get(argument.type)
    if datatype is None:
        raise ModelLoadFailed(f"tensor {argument.name!r} is a {argument.type}: it cannot be served")
    shape = tuple(each if isinstance(each, int) else -1 for each in argument.shape)
    return TensorSpec(argument.name, find_datatype(datatype), shape)


def _apply_config(
    kind: str, found: tuple[TensorSpec, ...], wanted: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, ...]:
    """The tensors that the configuration names, or all; `ModelLoadFailed` if it differs from the
    model."""
    if not wanted:
        return found
    by_name = {each.name: each for each in found}
    for spec in wanted:
        model = by_name.get(spec.name)
        if model is None:
            raise ModelLoadFailed(
                f"config.pbtxt: {kind} {spec.name!r} is not in the model, "
                f"which has {', '.join(by_name)}"
            )
        fits = len(model.shape) == len(spec.shape) and all(
            -1 in (a, b) or a == b for a, b in zip(model.shape, spec.shape, strict=True)
        )
        if model.datatype is not spec.datatype or not fits:
            raise ModelLoadFailed(
                f"config.pbtxt: {kind} {spec.name!r} is {spec.datatype.name} "
                f"{format_shape(spec.shape)}: the model has {model.datatype.name} "
                f"{format_shape(model.shape)}"
            )
    if kind == "input" and (missing := by_name.keys() - {each.name for each in wanted}):
        raise ModelLoadFailed(f"config.pbtxt: input {min(missing)!r} of the model is missing")
    return wanted


def _require_batch_dimension(queue: QueueSettings, tensors: tuple[TensorSpec, ...]) -> None:
    if not queue.max_batch_size:
        return
    for spec in tensors:
        if spec.shape[:1] != (-1,):
            raise ModelLoadFailed(
                f"config.pbtxt: max_batch_size is {queue.max_batch_size}, and the first dimension "
                f"of {spec.name!r} is fixed, {format_shape(spec.shape)}: use 0"
            )


def _to_array(tensor: Tensor) -> Any:
    if tensor.datatype.size:
        dtype = _NUMPY[tensor.datatype.name]
        return np.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape)
    elements = [each.decode(errors="surrogateescape") for each in split_elements(tensor.data)]
    return np.array(elements, dtype=object).reshape(tensor.shape)


def _to_tensor(spec: TensorSpec, array: Any) -> Tensor:
    if spec.datatype.size:
        return Tensor(spec.name, spec.datatype, tuple(array.shape), array.tobytes())
    elements = (str(each).encode(errors="surrogateescape") for each in array.ravel())
    return Tensor(spec.name, spec.datatype, tuple(array.shape), join_elements(elements))

"""`config.pbtxt` of a model of the repository: what of Triton's configuration is honoured, and what
is refused by name."""

from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format

from kilonova.serving.grpc import inference_pb2
from kilonova.serving.modelserver.errors import ModelLoadFailed
from kilonova.serving.modelserver.models.spec import DEFAULT_QUEUE_SIZE, QueueSettings
from kilonova.serving.modelserver.tensors import TensorSpec
from kilonova.serving.modelserver.tensors.datatypes import BY_CONFIG_NAME

CONFIG_FILE = "config.pbtxt"
MODEL_FILE = "model.onnx"
THREADS_PARAMETER = "intra_op_thread_count"
_BACKENDS = ("", "onnxruntime")
_PLATFORMS = ("", "onnxruntime_onnx")


@dataclass(frozen=True, slots=True)
class ModelFileConfig:
    """The configuration of a model."""

    queue: QueueSettings
    inputs: tuple[TensorSpec, ...]
    """With the dimension of the batch; empty if the file has none."""
    outputs: tuple[TensorSpec, ...]
    model_file: str = MODEL_FILE
    threads: int = 0
    """Threads of an execution; 0 for one per core."""
    is_cpu: bool = False
    """Whether it runs on the CPU even if there is a GPU."""


def read_config(folder: Path) -> ModelFileConfig | None:
    """The configuration in the folder of a model; None if there is none. `ModelLoadFailed` if it
    is invalid, or has settings that cannot be honoured."""
    try:
        text = (folder / CONFIG_FILE).read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadFailed(f"{CONFIG_FILE} cannot be read: {error}") from error
    config = inference_pb2.ModelConfig()
    try:
        text_format.Parse(text, config, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise ModelLoadFailed(f"{CONFIG_FILE} is invalid: {error}") from None
    _refuse(config, folder.name)
    has_batches = config.max_batch_size > 0
    return ModelFileConfig(
        queue=_read_queue(config),
        inputs=tuple(_read_tensor(each, has_batches) for each in config.input),
        outputs=tuple(_read_tensor(each, has_batches) for each in config.output),
        model_file=config.default_model_filename or MODEL_FILE,
        threads=_read_threads(config),
        is_cpu=any(
            group.kind == inference_pb2.ModelInstanceGroup.KIND_CPU
            for group in config.instance_group
        ),
    )


def _refuse(config: inference_pb2.ModelConfig, name: str) -> None:
    scheduling = config.WhichOneof("scheduling_choice")
    policy = config.version_policy
    problems = (
        (config.name not in ("", name), f'name is "{config.name}": the folder is "{name}"'),
        (
            config.backend not in _BACKENDS or config.platform not in _PLATFORMS,
            f'backend "{config.backend or config.platform}" is not available: use "onnxruntime"',
        ),
        (
            scheduling in ("sequence_batching", "ensemble_scheduling"),
            f"{scheduling} is not available: use dynamic_batching or none",
        ),
        (
            policy.WhichOneof("policy_choice") in ("all", "specific")
            or policy.latest.num_versions > 1,
            "version_policy is not available: the latest version is served",
        ),
        (
            config.model_transaction_policy.decoupled,
            "model_transaction_policy.decoupled is not available: leave it out",
        ),
        (config.max_batch_size < 0, f"max_batch_size is {config.max_batch_size}: use 0 or more"),
        (
            any(each.HasField("reshape") for each in (*config.input, *config.output)),
            "reshape is not available: write the dims of the model itself",
        ),
    )
    for is_problem, message in problems:
        if is_problem:
            raise ModelLoadFailed(f"{CONFIG_FILE}: {message}")


def _read_queue(config: inference_pb2.ModelConfig) -> QueueSettings:
    dynamic = config.dynamic_batching
    policy = dynamic.default_queue_policy
    return QueueSettings(
        max_size=policy.max_queue_size or DEFAULT_QUEUE_SIZE,
        timeout=policy.default_timeout_microseconds / 1e6,
        instances=sum(max(1, group.count) for group in config.instance_group) or 1,
        max_batch_size=config.max_batch_size,
        is_dynamic=config.HasField("dynamic_batching") and config.max_batch_size > 1,
        preferred_batch_sizes=tuple(dynamic.preferred_batch_size),
        max_delay=dynamic.max_queue_delay_microseconds / 1e6,
    )


def _read_tensor(
    tensor: inference_pb2.ModelInput | inference_pb2.ModelOutput, has_batches: bool
) -> TensorSpec:
    name = inference_pb2.DataType.Name(tensor.data_type)
    datatype = BY_CONFIG_NAME.get(name)
    if datatype is None:
        raise ModelLoadFailed(f'{CONFIG_FILE}: data_type of "{tensor.name}" is {name}')
    dims = tuple(tensor.dims)
    return TensorSpec(tensor.name, datatype, (-1, *dims) if has_batches else dims)


def _read_threads(config: inference_pb2.ModelConfig) -> int:
    if THREADS_PARAMETER not in config.parameters:
        return 0
    text = config.parameters[THREADS_PARAMETER].string_value
    if not text.isascii() or not text.isdecimal():
        raise ModelLoadFailed(f"{CONFIG_FILE}: {THREADS_PARAMETER} is {text!r}: write a number")
    return int(text)

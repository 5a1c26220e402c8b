"""What a model is: its tensors, its batches, its queue; and how that is described to clients.
Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors import Tensor, TensorSpec

DEFAULT_QUEUE_SIZE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How requests wait for an execution, and what is executed at once. Times in seconds."""

    max_size: int = DEFAULT_QUEUE_SIZE
    """Requests that wait at most; further ones are refused as exhausted."""
    timeout: float = 0.0
    """How long a request waits at most; 0 for no limit."""
    instances: int = 1
    """Executions at the same time."""
    max_batch_size: int = 0
    """The first dimension of all tensors is that of the batch, up to this; 0 for no batches."""
    is_dynamic: bool = False
    """Whether requests that wait become one batch."""
    preferred_batch_sizes: tuple[int, ...] = ()
    max_delay: float = 0.0
    """How long a request waits for others to become a batch with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A version of a model. The shapes of its tensors have the dimension of the batch."""

    name: str
    version: str = "1"
    platform: str
    backend: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    queue: QueueSettings = field(default_factory=QueueSettings)

    def check_inputs(self, tensors: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], int]:
        """The tensors in the order of the inputs, and the size of the batch. `InvalidTensor` if a
        tensor is missing, unknown, or not as the model takes it."""
        specs = self.inputs
        if len(tensors) == len(specs) and all(
            tensor.name == spec.name for tensor, spec in zip(tensors, specs, strict=True)
        ):
            ordered = tuple(tensors)
        else:
            ordered = self._order(tensors)
        for spec, tensor in zip(specs, ordered, strict=True):
            spec.check(tensor)
        return ordered, self._check_batch(ordered)

    def check_outputs(self, names: Sequence[str]) -> None:
        """`InvalidTensor` if there is no such output."""
        known = [each.name for each in self.outputs]
        for name in names:
            if name not in known:
                raise InvalidTensor(
                    f"output {name!r} of model {self.name!r} does not exist: "
                    f"it has {', '.join(known)}"
                )

    def describe(self) -> dict[str, Any]:
        """The metadata of the model."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": self.platform,
            "inputs": [_describe(each) for each in self.inputs],
            "outputs": [_describe(each) for each in self.outputs],
        }

    def describe_config(self) -> dict[str, Any]:
        """The configuration of the model in Triton's form."""
        queue = self.queue
        has_batches = queue.max_batch_size > 0
        config: dict[str, Any] = {
            "name": self.name,
            "platform": self.platform,
            "backend": self.backend,
            "version_policy": {"latest": {"num_versions": 1}},
            "max_batch_size": queue.max_batch_size,
            "input": [_describe_config(each, has_batches) for each in self.inputs],
            "output": [_describe_config(each, has_batches) for each in self.outputs],
            "instance_group": [
                {"name": f"{self.name}_0", "kind": "KIND_CPU", "count": queue.instances}
            ],
            "model_transaction_policy": {"decoupled": False},
        }
        if queue.is_dynamic:
            config["dynamic_batching"] = {
                "preferred_batch_size": list(queue.preferred_batch_sizes),
                "max_queue_delay_microseconds": round(queue.max_delay * 1e6),
                "default_queue_policy": {
                    "default_timeout_microseconds": round(queue.timeout * 1e6),
                    "max_queue_size": queue.max_size,
                },
            }
        return config

    def _order(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        by_name: Mapping[str, Tensor] = {each.name: each for each in tensors}
        known = {each.name for each in self.inputs}
        for tensor in tensors:
            if tensor.name not in known:
                names = ", ".join(each.name for each in self.inputs) or "none"
                raise InvalidTensor(
                    f"input {tensor.name!r} of model {self.name!r} does not exist: it has {names}"
                )
            if by_name[tensor.name] is not tensor:
                raise InvalidTensor(f"input {tensor.name!r} is there twice: send it once")
        for spec in self.inputs:
            if spec.name not in by_name:
                raise InvalidTensor(
                    f"input {spec.name!r} of model {self.name!r} is missing: "
                    f"send {spec.datatype.name} [{','.join(map(str, spec.shape))}]"
                )
        return tuple(by_name[each.name] for each in self.inputs)

    def _check_batch(self, tensors: Sequence[Tensor]) -> int:
        limit = self.queue.max_batch_size
        if not limit or not tensors:
            return 1
        first = tensors[0]
        for tensor in tensors:
            if tensor.shape[0] != first.shape[0]:
                raise InvalidTensor(
                    f"input {tensor.name!r}: the batch is {tensor.shape[0]}: "
                    f"that of {first.name!r} is {first.shape[0]}"
                )
        if not 1 <= first.shape[0] <= limit:
            raise InvalidTensor(
                f"input {first.name!r}: the batch is {first.shape[0]}: the model takes 1 to {limit}"
            )
        return first.shape[0]


def _describe(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": list(spec.shape)}


def _describe_config(spec: TensorSpec, has_batches: bool) -> dict[str, Any]:
    dims = spec.shape[1:] if has_batches else spec.shape
    return {"name": spec.name, "data_type": spec.datatype.config_name, "dims": list(dims)}

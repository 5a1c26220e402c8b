"""What both forms of the protocol have in common. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kilonova import __version__
from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors import Tensor

SERVER_NAME = "kilonova"
EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "statistics",
)
_REFUSED_PARAMETERS = {
    "shared_memory_region": "shared memory is not available: send the data",
    "classification": "classification is not available: request the tensor",
}


class InferRequest(NamedTuple):
    """A request for an inference."""

    model: str
    version: str
    id: str
    inputs: Sequence[Tensor]
    outputs: Sequence[str]
    """Empty for all."""


def describe_server() -> dict[str, Any]:
    """The metadata of the server."""
    return {"name": SERVER_NAME, "version": __version__, "extensions": list(EXTENSIONS)}


def refuse_parameters(tensor: str, names: Sequence[str]) -> None:
    """`InvalidTensor` for a parameter of a tensor that would change the result."""
    for name in names:
        if name in _REFUSED_PARAMETERS:
            raise InvalidTensor(f"tensor {tensor!r}: {_REFUSED_PARAMETERS[name]}")

"""What executes a model."""

from collections.abc import Sequence
from typing import Protocol

from kilonova.serving.modelserver.models.spec import ModelSpec
from kilonova.serving.modelserver.tensors import Tensor


class Backend(Protocol):
    """A loaded model. `execute` runs up to `spec.queue.instances` times at once."""

    @property
    def spec(self) -> ModelSpec: ...

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs, in the order of the spec, for inputs in its order; both with the dimension
        of the batch, if the model has one. An exception fails the requests of the batch."""
        ...

    def close(self) -> None:
        """Free what the model holds; nothing is executed any more."""
        ...

"""Tensors of the v2 protocol: raw bytes with a type and a shape, checked against a model."""

from kilonova.serving.modelserver.tensors.datatypes import Datatype, find_datatype
from kilonova.serving.modelserver.tensors.tensor import Tensor, TensorSpec, format_shape

__all__ = ["Datatype", "Tensor", "TensorSpec", "find_datatype", "format_shape"]

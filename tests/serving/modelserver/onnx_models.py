"""Small ONNX models, in Triton's layout."""

from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

_FLOAT = TensorProto.FLOAT


def save_model(
    repository: Path, name: str, graph: Any, *, version: str = "1", config: str = ""
) -> None:
    """Add a version of a model to a repository."""
    folder = repository / name / version
    folder.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    if config:
        (repository / name / "config.pbtxt").write_text(config)


def scale_graph(factor: float, rows: str | int = "batch", columns: int = 4) -> Any:
    """`y = factor * x`."""
    shape = [rows, columns]
    return helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "scale",
        [helper.make_tensor_value_info("x", _FLOAT, shape)],
        [helper.make_tensor_value_info("y", _FLOAT, shape)],
        [helper.make_tensor("factor", _FLOAT, [], [factor])],
    )


def text_graph() -> Any:
    """Returns text."""
    shape = ["batch", 1]
    return helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "text",
        [helper.make_tensor_value_info("x", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("y", TensorProto.STRING, shape)],
    )

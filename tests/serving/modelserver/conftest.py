"""A model server that the tests of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.modelserver.onnx_models import save_model, scale_graph, text_graph
from tests.serving.modelserver.server import ModelServer

_BATCHED = """
name: "batched"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
dynamic_batching { max_queue_delay_microseconds: 100000 }
"""


@pytest.fixture(scope="session")
def model_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models in Triton's layout."""
    folder = tmp_path_factory.mktemp("models")
    save_model(folder, "scale", scale_graph(2.0), version="1")
    save_model(folder, "scale", scale_graph(3.0), version="10")
    save_model(folder, "batched", scale_graph(2.0), config=_BATCHED)
    save_model(folder, "text", text_graph())
    return folder


@pytest.fixture(scope="session")
def model_server(
    tmp_path_factory: pytest.TempPathFactory, model_repository: Path
) -> Iterator[ModelServer]:
    """A server with models of all kinds, for tests that leave it as it is."""
    server = ModelServer.start(
        tmp_path_factory.mktemp("server"),
        f"--model-repository={model_repository}",
        *("--model=identity", "--model=add", "--model=half,kind=identity,datatype=FP16"),
        *("--model=words,kind=identity,datatype=BYTES", "--model=slow,time=300ms,queue=2"),
        "--llm=tiny,prefill=100us,decode=1ms,slots=4,queue=2,context=4096",
        "--drain-delay=0",
    )
    yield server
    server.process.stop()

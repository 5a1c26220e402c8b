"""Loading and unloading of models, at a server and in the registry."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.modelserver.onnx_models import save_model, scale_graph
from tests.serving.modelserver.server import ModelServer, json_input

ROW = json_input("x", [1.0] * 4, [1, 4], "FP32")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_model(folder, "first", scale_graph(2.0))
    save_model(folder, "second", scale_graph(2.0))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[ModelServer]:
    """A server that loads what it is told to."""
    server = ModelServer.start(
        tmp_path_factory.mktemp("server"),
        f"--model-repository={repository}",
        "--model-control=explicit",
        "--model=first",
        "--model=slow,time=500ms",
        "--drain-delay=0",
    )
    yield server
    server.process.stop()


def read_index(server: ModelServer) -> dict[str, tuple[str, str]]:
    index = server.post("/v2/repository/index", {})[1]
    return {each["name"]: (each["state"], each["reason"]) for each in index}


def test_models_are_loaded_and_unloaded(server: ModelServer) -> None:
    assert read_index(server)["first"] == ("READY", "")
    assert read_index(server)["second"] == ("", "")
    status, body = server.infer("second", ROW)
    assert (status, body["error"]) == (503, "model 'second' is not loaded")
    assert server.post("/v2/repository/models/second/load")[0] == 200
    assert server.infer("second", ROW)[1]["outputs"][0]["data"] == [2.0] * 4
    assert server.post("/v2/repository/models/second/unload")[0] == 200
    assert read_index(server)["second"] == ("UNAVAILABLE", "unloaded")
    assert server.get("/v2/models/second/ready")[0] == 503
    assert [each["name"] for each in server.post("/v2/repository/index", {"ready": True})[1]] == [
        "first",
        "slow",
    ]


def test_model_that_is_loaded_again_is_the_new_one(server: ModelServer, repository: Path) -> None:
    save_model(repository, "first", scale_graph(5.0), version="2")
    assert server.infer("first", ROW)[1]["model_version"] == "1"
    assert server.post("/v2/repository/models/first/load")[0] == 200
    answer = server.infer("first", ROW)[1]
    assert (answer["model_version"], answer["outputs"][0]["data"]) == ("2", [5.0] * 4)


def test_unloading_finishes_requests_in_flight(server: ModelServer) -> None:
    results: list[int] = []
    tensor = json_input("INPUT0", [1.0], datatype="FP32")
    thread = threading.Thread(target=lambda: results.append(server.infer("slow", tensor)[0]))
    thread.start()
    success = 'nv_inference_request_success{model="slow",version="1"}'
    before = server.read_metrics()[success]
    assert server.post("/v2/repository/models/slow/unload")[0] == 200
    thread.join()
    assert (results, before) == ([200], 0)
    assert server.infer("slow", tensor)[0] == 503
    assert server.post("/v2/repository/models/slow/load")[0] == 200


def test_built_in_model_is_loaded_by_name(server: ModelServer) -> None:
    assert server.post("/v2/repository/models/add/load")[0] == 200
    assert server.get("/v2/models/add/ready")[0] == 200
    assert server.post("/v2/repository/models/add/unload")[0] == 200


def test_files_cannot_be_replaced_by_a_request(server: ModelServer) -> None:
    status, body = server.post("/v2/repository/models/first/load", {"parameters": {"config": "{}"}})
    assert status == 400
    assert "parameter 'config' is not available" in body["error"]


INPUT = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]'


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("max_batch_size: x", "config.pbtxt is invalid: 1:17"),
        ('name: "other"', 'name is "other": the folder is "broken"'),
        ('backend: "python"', 'backend "python" is not available: use "onnxruntime"'),
        ("ensemble_scheduling {}", "ensemble_scheduling is not available"),
        ("version_policy { all {} }", "version_policy is not available"),
        ("model_transaction_policy { decoupled: true }", "decoupled is not available"),
        ("max_batch_size: -1", "max_batch_size is -1: use 0 or more"),
        (INPUT, "input 'x' is FP32 [4]: the model has FP32 [-1,4]"),
        (INPUT.replace('"x"', '"z"'), "input 'z' is not in the model, which has x"),
        (f"max_batch_size: 8 {INPUT.replace('FP32', 'FP64')}", "input 'x' is FP64 [-1,4]"),
        ('default_model_filename: "m.onnx"', "1/m.onnx does not exist"),
        ('input [ { name: "x" dims: [ 4 ] } ]', 'data_type of "x" is TYPE_INVALID'),
    ],
)
def test_model_that_cannot_be_loaded_tells_why(
    server: ModelServer, repository: Path, config: str, reason: str
) -> None:
    save_model(repository, "broken", scale_graph(2.0), config=config)
    status, body = server.post("/v2/repository/models/broken/load")
    assert status == 400
    assert body["error"].startswith("model 'broken' cannot be loaded: ")
    assert reason in body["error"]
    state, told = read_index(server)["broken"]
    assert state == "UNAVAILABLE"
    assert reason in told


def test_file_that_is_no_model_tells_why(server: ModelServer, repository: Path) -> None:
    folder = repository / "noise" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"noise")
    assert "onnxruntime: " in server.post("/v2/repository/models/noise/load")[1]["error"]
    (repository / "empty").mkdir()
    assert "there is no version" in server.post("/v2/repository/models/empty/load")[1]["error"]


def test_names_stay_inside_of_the_repository(server: ModelServer) -> None:
    status, body = server.post("/v2/repository/models/../load")
    assert status == 404, body


async def test_requests_become_batches(model_server: ModelServer) -> None:
    """The model waits for a tenth of a second: all requests are executed together."""
    count = 'nv_inference_exec_count{model="batched",version="1"}'
    before = model_server.read_metrics()[count]
    rows = [json_input("x", [float(number)] * 4, [1, 4], "FP32") for number in range(8)]
    found = await asyncio.gather(
        *(asyncio.to_thread(model_server.infer, "batched", each) for each in rows)
    )
    assert [body["outputs"][0]["data"] for _, body in found] == [
        [2.0 * number] * 4 for number in range(8)
    ]
    assert model_server.read_metrics()[count] - before <= 3

"""KServe's v2 protocol over HTTP."""

import json
from array import array
from typing import Any

import pytest

from tests.serving.modelserver.server import HEADER_LENGTH, ModelServer, json_input

ONES = [1] * 16
TWOS = [2] * 16


def test_server_tells_what_it_is(model_server: ModelServer) -> None:
    status, body = model_server.get("/v2")
    assert status == 200
    assert body["name"] == "kilonova"
    assert {"binary_tensor_data", "model_repository", "statistics"} <= set(body["extensions"])
    assert model_server.get("/v2/health/live") == (200, {"live": True})
    assert model_server.get("/v2/health/ready") == (200, {"ready": True})


def test_model_tells_its_tensors(model_server: ModelServer) -> None:
    status, body = model_server.get("/v2/models/add")
    assert status == 200
    assert body["versions"] == ["1"]
    assert body["inputs"] == [
        {"name": name, "datatype": "INT32", "shape": [16]} for name in ("INPUT0", "INPUT1")
    ]
    assert model_server.get("/v2/models/add/versions/1")[1] == body
    assert model_server.get("/v2/models/add/versions/1/ready")[0] == 200
    config = model_server.get("/v2/models/batched/config")[1]
    assert config["max_batch_size"] == 8
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 100000


def test_sum_and_difference_in_json(model_server: ModelServer) -> None:
    status, body = model_server.infer(
        "add", json_input("INPUT0", ONES), json_input("INPUT1", TWOS), id="one"
    )
    assert status == 200
    assert (body["id"], body["model_name"], body["model_version"]) == ("one", "add", "1")
    assert {each["name"]: each["data"] for each in body["outputs"]} == {
        "OUTPUT0": [3] * 16,
        "OUTPUT1": [-1] * 16,
    }


def test_only_requested_outputs_are_returned_in_their_order(model_server: ModelServer) -> None:
    inputs = (json_input("INPUT1", TWOS), json_input("INPUT0", ONES))
    _, body = model_server.infer("add", *inputs, outputs=[{"name": "OUTPUT1"}])
    assert [each["name"] for each in body["outputs"]] == ["OUTPUT1"]
    assert body["outputs"][0]["data"] == [-1] * 16


def test_sums_overflow_as_32_bits(model_server: ModelServer) -> None:
    largest = json_input("INPUT0", [2**31 - 1] * 16)
    _, body = model_server.infer("add", largest, json_input("INPUT1", ONES))
    assert body["outputs"][0]["data"] == [-(2**31)] * 16


@pytest.mark.parametrize(
    ("model", "datatype", "data"),
    [
        ("identity", "FP32", [0.5, -1.0, 3.0]),
        ("half", "FP16", [0.5, -2.0]),
        ("words", "BYTES", ["", "two words", "ü"]),
        ("identity", "FP32", []),
    ],
)
def test_elements_return_as_they_were(
    model_server: ModelServer, model: str, datatype: str, data: list[Any]
) -> None:
    status, body = model_server.infer(model, json_input("INPUT0", data, [len(data)], datatype))
    assert status == 200
    assert body["outputs"][0]["data"] == data


def test_nested_data_is_flattened(model_server: ModelServer) -> None:
    rows = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    _, body = model_server.infer("scale", json_input("x", rows, [2, 4], "FP32"))
    assert body["outputs"][0]["shape"] == [2, 4]
    assert body["outputs"][0]["data"] == [3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0]


def test_tensors_are_sent_and_returned_as_binary_data(model_server: ModelServer) -> None:
    data = array("f", [1.5, 2.5, 3.5]).tobytes()
    head = {
        "inputs": [
            {
                "name": "INPUT0",
                "datatype": "FP32",
                "shape": [3],
                "parameters": {"binary_data_size": len(data)},
            }
        ],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
    }
    encoded = json.dumps(head).encode()
    status, headers, body = model_server.send(
        "POST", "/v2/models/identity/infer", encoded + data, {HEADER_LENGTH: str(len(encoded))}
    )
    assert status == 200
    size = int(headers[HEADER_LENGTH])
    assert headers["content-type"] == "application/octet-stream"
    assert json.loads(body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 12}
    assert body[size:] == data


def test_all_outputs_are_binary_if_the_request_says_so(model_server: ModelServer) -> None:
    request = {
        "inputs": [json_input("INPUT0", ONES), json_input("INPUT1", TWOS)],
        "parameters": {"binary_data_output": True},
    }
    _, headers, body = model_server.send(
        "POST", "/v2/models/add/infer", json.dumps(request).encode()
    )
    size = int(headers[HEADER_LENGTH])
    assert body[size:] == array("i", [3] * 16).tobytes() + array("i", [-1] * 16).tobytes()


def test_large_body_is_answered(model_server: ModelServer) -> None:
    data = bytes(range(256)) * 4096 * 64
    head = {
        "name": "INPUT0",
        "datatype": "FP32",
        "shape": [len(data) // 4],
        "parameters": {"binary_data_size": len(data)},
    }
    encoded = json.dumps({"inputs": [head], "parameters": {"binary_data_output": True}}).encode()
    status, headers, body = model_server.send(
        "POST", "/v2/models/identity/infer", encoded + data, {HEADER_LENGTH: str(len(encoded))}
    )
    assert status == 200
    assert body[int(headers[HEADER_LENGTH]) :] == data


def first(**fields: object) -> dict[str, Any]:
    return {**json_input("INPUT0", ONES), **fields}


SECOND = json_input("INPUT1", TWOS)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([first()], "input 'INPUT1' of model 'add' is missing: send INT32 [16]"),
        ([first(), SECOND, first(name="X")], "input 'X' of model 'add' does not exist: it has"),
        ([first(), first()], "input 'INPUT0' is there twice: send it once"),
        ([first(datatype="FP32"), SECOND], "'INPUT0': datatype is FP32: the model takes INT32"),
        ([first(datatype="INT31"), SECOND], "input 'INPUT0': datatype 'INT31' is unknown: use"),
        (
            [first(shape=[4, 4]), SECOND],
            "input 'INPUT0': shape is [4,4]: the model takes [16]",
        ),
        (
            [first(shape=[2**60, 2**60]), SECOND],
            "input 'INPUT0': 16 elements of data: INT32 [1152921504606846976,1152921504606846976]",
        ),
        ([first(shape=[-16]), SECOND], "input 'INPUT0': shape is [-16]: use sizes of 0 or more"),
        ([first(data=ONES[1:]), SECOND], "input 'INPUT0': 15 elements of data: INT32 [16] has 16"),
        ([first(data=[0.5, *ONES[1:]]), SECOND], "input 'INPUT0': 0.5 is no INT32"),
        ([first(data=[2**31, *ONES[1:]]), SECOND], "input 'INPUT0': 2147483648 is no INT32"),
        ([first(data=["1", *ONES[1:]]), SECOND], "input 'INPUT0': '1' is no INT32"),
        ([first(data=7), SECOND], "input 'INPUT0': data is no list: write a list of INT32"),
        ([{"name": "INPUT0", "shape": [16], "data": ONES}], "datatype"),
        ([first(shape="16")], "shape"),
        (
            [first(parameters={"binary_data_size": 64}), SECOND],
            "input 'INPUT0' has data and binary_data_size: send one of them",
        ),
        (
            [first(data=None, parameters={"binary_data_size": 64}), SECOND],
            "input 'INPUT0': binary_data_size is 64: only 0 bytes are there",
        ),
        (
            [first(parameters={"shared_memory_region": "a"}), SECOND],
            "tensor 'INPUT0': shared memory is not available: send the data",
        ),
    ],
)
def test_malformed_input_is_named(
    model_server: ModelServer, inputs: list[Any], message: str
) -> None:
    status, body = model_server.infer("add", *inputs)
    assert status == 400
    assert message in body["error"]


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"{", {}, "the body is not JSON"),
        (b"[" * 100_000, {}, "the body is not JSON"),
        (b"\xff", {}, "the body is not JSON"),
        (b"[]", {}, "write"),
        (b"{}", {HEADER_LENGTH: "3"}, "Inference-Header-Content-Length is 3: only 2 bytes"),
        (b"{}", {HEADER_LENGTH: "x"}, "is 'x': write a number of bytes"),
        (b"{}", {HEADER_LENGTH: "9" * 400}, "only 2 bytes are there"),
        (b'{"inputs":[]} ', {HEADER_LENGTH: "13"}, "1 bytes of binary data are left"),
        (b"{}", {"content-encoding": "gzip"}, "'gzip': send it uncompressed"),
    ],
)
def test_malformed_body_is_refused(
    model_server: ModelServer, body: bytes, headers: dict[str, str], message: str
) -> None:
    status, _, answer = model_server.send("POST", "/v2/models/add/infer", body, headers)
    assert status == 400
    assert message in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v2/models/none/infer", 404, "model 'none' does not exist"),
        ("GET", "/v2/models/none/ready", 404, "model 'none' does not exist"),
        ("POST", "/v2/models/add/versions/7/infer", 404, "model 'add' has no version '7'"),
        ("POST", "/v2/models/tiny/infer", 400, "'tiny' is a language model: use POST /v1/comp"),
        ("GET", "/v2/models/add/infer", 405, "use POST /v2/models/add/infer"),
        ("POST", "/v2/health/live", 405, "use GET /v2/health/live"),
        ("GET", "/v2/models/add/nothing", 404, "there is no path"),
        ("POST", "/v2/repository/models/none/load", 404, "it is not in the repository"),
        ("POST", "/v2/repository/models/none/unload", 404, "it is not in the repository"),
        ("GET", "/nothing", 404, "there is no path /nothing"),
    ],
)
def test_wrong_request_is_refused(
    model_server: ModelServer, method: str, path: str, status: int, message: str
) -> None:
    found, _, body = model_server.send(method, path)
    assert (found, message in json.loads(body)["error"]) == (status, True)


def test_unknown_output_is_refused(model_server: ModelServer) -> None:
    inputs = (json_input("INPUT0", ONES), json_input("INPUT1", TWOS))
    status, body = model_server.infer("add", *inputs, outputs=[{"name": "SUM"}])
    assert status == 400
    assert body["error"] == "output 'SUM' of model 'add' does not exist: it has OUTPUT0, OUTPUT1"


def test_statistics_count_requests_and_failures(model_server: ModelServer) -> None:
    before = read_statistics(model_server, "words")
    model_server.infer("words", json_input("INPUT0", ["a"], datatype="BYTES"))
    model_server.infer("words", json_input("INPUT0", [1]))
    after = read_statistics(model_server, "words")
    assert after["inference_count"] == before["inference_count"] + 1
    assert (
        after["inference_stats"]["fail"]["count"] == before["inference_stats"]["fail"]["count"] + 1
    )
    assert after["inference_stats"]["compute_infer"]["ns"] > 0
    assert {"scale", "add", "words", "tiny"} <= {
        each["name"] for each in model_server.get("/v2/models/stats")[1]["model_stats"]
    }


def test_latest_version_is_served(model_server: ModelServer) -> None:
    _, body = model_server.infer("scale", json_input("x", [1.0] * 4, [1, 4], "FP32"))
    assert body["model_version"] == "10"
    assert body["outputs"][0]["data"] == [3.0] * 4


def test_text_goes_through_onnx(model_server: ModelServer) -> None:
    _, body = model_server.infer("text", json_input("x", ["one", "zwölf"], [2, 1], "BYTES"))
    assert body["outputs"][0]["data"] == ["one", "zwölf"]


def test_metrics_have_the_names_of_triton(model_server: ModelServer) -> None:
    key = 'nv_inference_request_success{model="identity",version="1"}'
    before = model_server.read_metrics()[key]
    model_server.infer("identity", json_input("INPUT0", [1.0], datatype="FP32"))
    metrics = model_server.read_metrics()
    assert metrics[key] == before + 1
    assert metrics['nv_inference_pending_request_count{model="identity",version="1"}'] == 0
    assert metrics['nv_inference_request_duration_us{model="identity",version="1"}'] > 0


def read_statistics(server: ModelServer, model: str) -> dict[str, Any]:
    (found,) = server.get(f"/v2/models/{model}/stats")[1]["model_stats"]
    return found

"""From the answers of servers to the answer of the service."""

import msgspec
import pytest

from kilonova.serving.controlplane.answers.json_forms import decode_message, encode_message
from kilonova.serving.controlplane.answers.merge import merge_indexes, merge_statistics
from kilonova.serving.grpc import inference_pb2 as pb


def build_index(*models: tuple[str, str, str]) -> pb.RepositoryIndexResponse:
    found = pb.RepositoryIndexResponse()
    for name, version, state in models:
        found.models.add(name=name, version=version, state=state)
    return found


def build_statistics(name: str, count: int, **fields: int) -> pb.ModelStatisticsResponse:
    found = pb.ModelStatisticsResponse()
    model = found.model_stats.add(name=name, version="1", inference_count=count, **fields)
    model.inference_stats.success.count, model.inference_stats.success.ns = count, 10 * count
    model.batch_stats.add(batch_size=count).compute_infer.count = 1
    model.memory_usage.add(type="GPU", id=0, byte_size=100)
    model.response_stats["0"].success.count = count
    return found


@pytest.mark.parametrize(
    ("answers", "ready", "merged"),
    [
        ([], False, []),
        (
            [build_index(("a", "1", "READY")), build_index(("b", "1", "READY"))],
            False,
            [("a", "1", "READY"), ("b", "1", "READY")],
        ),
        (
            [build_index(("a", "1", "UNAVAILABLE")), build_index(("a", "1", "READY"))],
            False,
            [("a", "1", "READY")],
        ),
        (
            [build_index(("a", "", "")), build_index(("a", "1", "READY"))],
            False,
            [("a", "1", "READY")],
        ),
        (
            [build_index(("a", "", ""), ("b", "2", "READY"))],
            False,
            [("a", "", ""), ("b", "2", "READY")],
        ),
        ([build_index(("a", "", ""), ("b", "2", "READY"))], True, [("b", "2", "READY")]),
        (
            [build_index(("a", "1", "READY"), ("a", "2", "LOADING"))],
            False,
            [("a", "1", "READY"), ("a", "2", "LOADING")],
        ),
    ],
)
def test_index_has_the_models_of_all_servers(answers, ready, merged) -> None:
    index = merge_indexes(answers, ready=ready)
    assert [(each.name, each.version, each.state) for each in index.models] == merged


def test_statistics_are_sums() -> None:
    answers = [
        build_statistics("a", 3, last_inference=100, execution_count=2),
        build_statistics("a", 4, last_inference=50, execution_count=4),
        build_statistics("b", 5),
    ]
    first, second = merge_statistics(answers).model_stats
    assert (first.name, first.inference_count, first.execution_count) == ("a", 7, 6)
    assert first.last_inference == 100
    assert (first.inference_stats.success.count, first.inference_stats.success.ns) == (7, 70)
    assert [(each.batch_size, each.compute_infer.count) for each in first.batch_stats] == [
        (3, 1),
        (4, 1),
    ]
    assert first.memory_usage[0].byte_size == 200
    assert first.response_stats["0"].success.count == 7
    assert (second.name, second.inference_count) == ("b", 5)
    # The answers themselves are left alone.
    assert answers[0].model_stats[0].inference_count == 3


def test_json_of_statistics_has_numbers() -> None:
    body = encode_message(build_statistics("a", 1 << 40))
    (model,) = msgspec.json.decode(body)["model_stats"]
    assert model["inference_count"] == 1 << 40
    assert model["inference_stats"]["success"] == {"count": 1 << 40, "ns": 10 << 40}
    assert model["response_stats"]["0"]["success"]["count"] == 1 << 40
    assert model["memory_usage"] == [{"type": "GPU", "id": 0, "byte_size": 100}]


@pytest.mark.parametrize(
    "message",
    [
        build_statistics("a", 7),
        build_index(("a", "1", "READY"), ("b", "", "")),
        pb.ServerMetadataResponse(name="s", version="1", extensions=["statistics"]),
        pb.ModelConfigResponse(config=pb.ModelConfig(name="a", max_batch_size=8)),
    ],
)
def test_messages_survive_their_json(message) -> None:
    assert decode_message(type(message), encode_message(message)) == message


def test_fields_that_are_not_known_are_skipped() -> None:
    body = b'{"name": "a", "platform": "onnx", "further": {"x": 1}}'
    assert decode_message(pb.ModelMetadataResponse, body).platform == "onnx"


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"[", "truncated"), (b'{"name": 1}', "name"), (b"[1]", "expected string")],
)
def test_text_that_is_no_message_is_an_error(body: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_message(pb.ModelMetadataResponse, body)

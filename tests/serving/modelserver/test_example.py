"""The example of a model repository."""

from pathlib import Path

from tests.serving.modelserver.server import ModelServer, json_input

_EXAMPLE = Path(__file__).parents[3] / "examples" / "serving" / "models"


def test_example_is_served_in_batches(tmp_path: Path) -> None:
    server = ModelServer.start(tmp_path, f"--model-repository={_EXAMPLE}", "--drain-delay=0")
    _, body = server.infer("double", json_input("x", [1.0, 2.0, 3.0, 4.0], [1, 4], "FP32"))
    assert body["outputs"][0]["data"] == [2.0, 4.0, 6.0, 8.0]
    assert server.get("/v2/models/double/config")[1]["max_batch_size"] == 32
    server.process.stop()

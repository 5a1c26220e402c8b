"""What is published of models, and the status that follows from it."""

from typing import Any

import msgspec

from kilonova.api.serving import ModelStatus, ServerGroup, names
from kilonova.serving.models.states import (
    ModelState,
    encode_annotations,
    read_loaded,
    summarize_models,
)
from kilonova.serving.resources import Pod

GROUP = msgspec.convert(
    {"name": "gpu", "modelPlacement": {"models": [{"name": "cat"}, {"name": "dog"}]}}, ServerGroup
)


def pod(name: str, annotations: dict[str, str], *, ready: bool = True, restarts: int = 0) -> Pod:
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "1",
            "annotations": annotations,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "server", "restartCount": restarts}],
        },
    }
    return msgspec.convert(body, Pod)


def test_status_counts_copies_and_says_why_a_model_lacks_them() -> None:
    failed = {"cat": ModelState("Loaded"), "dog": ModelState("Failed", "out of memory")}
    pods = [
        pod("a", encode_annotations({"cat", "own"}, failed, 0)),
        pod("b", encode_annotations({"cat"}, {"dog": ModelState("Loading")}, 0)),
        pod("c", encode_annotations({"cat", "dog"}, {}, 0), ready=False),
    ]
    assert summarize_models(GROUP, pods) == (
        ModelStatus("cat", 2),
        ModelStatus("dog", 0, 1, "a: out of memory"),
    )


def test_server_that_has_restarted_has_no_models_until_it_says_so() -> None:
    before = encode_annotations({"cat"}, {}, 1)
    assert read_loaded(pod("a", before, restarts=1)) == {"cat"}
    assert read_loaded(pod("a", before, restarts=2)) == frozenset()


def test_damaged_annotations_are_no_models() -> None:
    broken = {names.LOADED_MODELS: "cat", names.MODEL_STATES: '{"cat": 1}'}
    assert summarize_models(GROUP, [pod("a", broken)]) == (ModelStatus("cat"), ModelStatus("dog"))


def test_group_without_placement_has_no_models() -> None:
    group = msgspec.convert({"name": "gpu"}, ServerGroup)
    assert summarize_models(group, [pod("a", encode_annotations({"cat"}, {}, 0))]) == ()

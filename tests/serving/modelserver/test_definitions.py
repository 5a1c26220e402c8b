"""Which models a server has, from its flags."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.component.failure import WrongUsage
from kilonova.kube.observability.metrics import Metrics
from kilonova.serving.modelserver.definitions import build_registry
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.settings import ServerSettings


def build(**settings: Any) -> tuple[list[str], list[str]]:
    """The models that must be loaded, and those that may fail."""
    _, required, optional = build_registry(ServerSettings(**settings), LlmMetrics(Metrics()))
    return required, optional


def test_models_of_the_repository_may_fail_and_named_ones_may_not(tmp_path: Path) -> None:
    for name in ("a", "b", ".hidden"):
        (tmp_path / name).mkdir()
    assert build(model_repository=tmp_path) == ([], ["a", "b"])
    assert build(model_repository=tmp_path, models=("b", "slow,time=1s")) == (["b", "slow"], ["a"])
    assert build(model_repository=tmp_path, loads_all=False, models=("a",)) == (["a"], [])


def test_server_without_any_model_has_the_built_in_ones() -> None:
    assert build() == (["identity", "add", "slow"], [])
    assert build(llms=("tiny",)) == (["tiny"], [])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": ["none"]}, "--model none: 'none' is neither in the repository nor built in"),
        ({"models": ["slow,time=soon"]}, "time is 'soon': write a duration such as 20ms"),
        ({"models": ["slow,tim=1s"]}, "there is no option 'tim': use time, item_time, work"),
        ({"models": ["slow,time"]}, "'time': write option=value, each once"),
        ({"models": ["slow,work=play"]}, "work is 'play': use sleep or compute"),
        ({"models": [",time=1s"]}, "there is no name: write NAME[,option=value…]"),
        ({"models": ["identity,datatype=X"]}, "datatype 'X' is unknown: use BOOL, UINT8"),
        ({"models": ["add"], "llms": ["add"]}, "there are two models 'add': name each once"),
        ({"llms": ["tiny,slots=0"]}, "slots is '0': write a number from 1"),
        (
            {"llms": ["x,slots=99999999999"]},
            "slots is '99999999999': write a number from 1 to 65536",
        ),
        ({"llms": ["tiny,queue=1048577"]}, "queue is '1048577': write a number from 0 to 1048576"),
        ({"llms": ["tiny,cache=268435457"]}, "write a number from 1 to 268435456"),
        ({"llms": ["tiny,cache=268435456,block=8"]}, "it may have 16777216 blocks, of 8 each"),
        ({"llms": ["tiny,block=1048577"]}, "write a number from 1 to 1048576"),
        ({"llms": ["tiny,chunk=1048577"]}, "write a number from 1 to 1048576"),
        ({"llms": ["tiny,context=16777217"]}, "write a number from 1 to 16777216"),
        ({"llms": ["tiny,backend=torch,layers=1025"]}, "write a number from 1 to 1024"),
        ({"llms": ["tiny,backend=torch,width=131073"]}, "write a number from 1 to 131072"),
        ({"llms": ["tiny,backend=torch,heads=1025"]}, "write a number from 1 to 1024"),
        ({"llms": ["tiny,backend=torch,vocabulary=1048577"]}, "to 1048576"),
        ({"models": ["slow,instances=1025"]}, "write a number from 1 to 1024"),
        ({"models": ["slow,batch=1048577"]}, "write a number from 0 to 1048576"),
        ({"llms": ["tiny,backend=vllm"]}, "backend is 'vllm': use timed or torch"),
        ({"llms": ["tiny,cache=8"]}, "cache is 8: it must hold a block, 16"),
        ({"llms": ["tiny,backend=torch,width=100"]}, "width is 100: it must be a multiple"),
        ({"llms": ["tiny,layers=4"]}, "there is no option 'layers'"),
        ({"model_repository": Path("/nowhere")}, "--model-repository /nowhere is not a directory"),
        ({"max_request_bytes": 3_000_000_000}, "--max-request-bytes is 3000000000: use 1 to"),
    ],
)
def test_wrong_flag_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        build(**settings)
    assert message in str(caught.value)

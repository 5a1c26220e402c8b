"""An operator written with kopf lives on the embedded cluster."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.ground import Ground, until
from tests.harness.process import ServerProcess

_OPERATOR = Path(__file__).parent / "operator_of_boards.py"
_FREE: Any = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boards.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boards", "singular": "board", "kind": "Board"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _FREE, "status": _FREE},
                    }
                },
            }
        ],
    },
}


@contextmanager
def operator(ground: Ground, folder: Path) -> Generator[ServerProcess]:
    """The operator as a process of its own."""
    command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", str(_OPERATOR)]
    env = {**os.environ, "KUBECONFIG": str(ground.access.kubeconfig)}
    process = ServerProcess("kopf", command, folder / "operator.log", env)
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def boards(ground: Ground) -> Ground:
    ground.run("apply -f -", json.dumps(_DEFINITION))
    ground.run("wait --for=condition=Established crd/boards.example.com --timeout=30s")
    return ground


def test_an_operator_follows_its_objects_and_goes_on_after_a_restart(
    boards: Ground, tmp_path: Path
) -> None:
    with operator(boards, tmp_path):
        boards.run("create -f -", _board(2))
        made = until(lambda: boards.read("board a"), _drawn("create", 2))
        assert made["status"]["draw"]["because"] == "create"
        assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        until(lambda: boards.read("board a"), lambda board: board["status"].get("looks") == 3)

        boards.run("apply --server-side --force-conflicts -f -", _board(5))
        changed = until(lambda: boards.read("board a"), _drawn("update", 5))
        assert changed["metadata"]["generation"] == 2

    # What happens while nobody operates is seen by the next operator.
    boards.run("apply --server-side --force-conflicts -f -", _board(7))
    boards.run("delete board a --wait=false")
    boards.run("create -f -", _board(1).replace('"a"', '"b"'))
    assert "deletionTimestamp" in boards.read("board a")["metadata"]
    with operator(boards, tmp_path):
        boards.run("wait --for=delete board/a --timeout=30s")
        until(lambda: boards.read("board b"), _drawn("create", 1))
        said = until(lambda: boards.run("get events"), lambda text: "Wiped" in text)
        assert "a is blank" in said
        boards.run("delete board b --timeout=30s")


def test_an_operator_at_rest_writes_nothing(boards: Ground, tmp_path: Path) -> None:
    with operator(boards, tmp_path):
        boards.run("create -f -", _board(1).replace('"a"', '"c"'))
        until(lambda: boards.read("board c"), lambda b: b.get("status", {}).get("looks") == 3)
        before = until(lambda: boards.read("board c"), _drawn("create", 1))
        log = tmp_path / "operator.log"
        looks = "Timer 'look' succeeded"
        seen = log.read_text().count(looks)
        until(lambda: log.read_text().count(looks), lambda count: count >= seen + 3)
        after = boards.read("board c")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        boards.run("delete board c --timeout=30s")


def _board(pages: int) -> str:
    body = {"apiVersion": "example.com/v1", "kind": "Board", "metadata": {"name": "a"}}
    return json.dumps({**body, "spec": {"pages": pages}})


def _drawn(because: str, pages: int) -> Any:
    wanted = {"pages": pages, "because": because}
    return lambda board: board.get("status", {}).get("draw") == wanted

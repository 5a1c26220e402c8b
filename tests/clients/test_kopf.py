"""An operator written with kopf runs on the embedded cluster."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_cluster import ClientCluster, wait_until
from tests.harness.server_process import ServerProcess

_OPERATOR = Path(__file__).parent / "operator_of_boards.py"
_ANY_PORT: Any = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
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
                        "properties": {"spec": _ANY_PORT, "status": _ANY_PORT},
                    }
                },
            }
        ],
    },
}


@contextmanager
def running_operator(client_cluster: ClientCluster, folder: Path) -> Generator[ServerProcess]:
    """The operator as a separate process."""
    command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", str(_OPERATOR)]
    env = {**os.environ, "KUBECONFIG": str(client_cluster.access.kubeconfig)}
    process = ServerProcess("kopf", command, folder / "operator.log", env)
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def boards(client_cluster: ClientCluster) -> ClientCluster:
    client_cluster.run_kubectl("apply -f -", json.dumps(_DEFINITION))
    client_cluster.run_kubectl(
        "wait --for=condition=Established crd/boards.example.com --timeout=30s"
    )
    return client_cluster


def test_operator_handles_its_objects_and_continues_after_a_restart(
    boards: ClientCluster, tmp_path: Path
) -> None:
    with running_operator(boards, tmp_path):
        boards.run_kubectl("create -f -", _build_board(2))
        made = wait_until(lambda: boards.get_json("board a"), _expected_pages("create", 2))
        assert made["status"]["create_pages"]["because"] == "create"
        assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        wait_until(
            lambda: boards.get_json("board a"), lambda board: board["status"].get("looks") == 3
        )

        boards.run_kubectl("apply --server-side --force-conflicts -f -", _build_board(5))
        changed = wait_until(lambda: boards.get_json("board a"), _expected_pages("update", 5))
        assert changed["metadata"]["generation"] == 2

    # Changes while no operator runs are handled by the next one.
    boards.run_kubectl("apply --server-side --force-conflicts -f -", _build_board(7))
    boards.run_kubectl("delete board a --wait=false")
    boards.run_kubectl("create -f -", _build_board(1).replace('"a"', '"b"'))
    assert "deletionTimestamp" in boards.get_json("board a")["metadata"]
    with running_operator(boards, tmp_path):
        boards.run_kubectl("wait --for=delete board/a --timeout=30s")
        wait_until(lambda: boards.get_json("board b"), _expected_pages("create", 1))
        said = wait_until(lambda: boards.run_kubectl("get events"), lambda text: "Wiped" in text)
        assert "a is blank" in said
        boards.run_kubectl("delete board b --timeout=30s")


def test_idle_operator_writes_nothing(boards: ClientCluster, tmp_path: Path) -> None:
    with running_operator(boards, tmp_path):
        boards.run_kubectl("create -f -", _build_board(1).replace('"a"', '"c"'))
        wait_until(
            lambda: boards.get_json("board c"), lambda b: b.get("status", {}).get("looks") == 3
        )
        before = wait_until(lambda: boards.get_json("board c"), _expected_pages("create", 1))
        log = tmp_path / "operator.log"
        looks = "Timer 'observe_board' succeeded"
        seen = log.read_text().count(looks)
        wait_until(lambda: log.read_text().count(looks), lambda count: count >= seen + 3)
        after = boards.get_json("board c")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        boards.run_kubectl("delete board c --timeout=30s")


def _build_board(pages: int) -> str:
    body = {"apiVersion": "example.com/v1", "kind": "Board", "metadata": {"name": "a"}}
    return json.dumps({**body, "spec": {"pages": pages}})


def _expected_pages(because: str, pages: int) -> Any:
    wanted = {"pages": pages, "because": because}
    return lambda board: board.get("status", {}).get("create_pages") == wanted

"""What of a log request reaches the node."""

from datetime import UTC, datetime

import pytest

from kilonova.local.kubelets import LogRequest
from tests.local.streaming.scene import Scene

BASE = "/api/v1/namespaces/default/pods/web/log"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", LogRequest("main", False, False, False, None, None)),
        ("follow=true&timestamps=1", LogRequest("main", True, False, True, None, None)),
        ("tailLines=5&sinceSeconds=7", LogRequest("main", False, False, False, 5, 7)),
        (
            "sinceTime=2026-05-01T02:00:00%2B02:00&limitBytes=9",
            LogRequest(
                "main", False, False, False, None, None, datetime(2026, 5, 1, tzinfo=UTC), 9
            ),
        ),
        ("insecureSkipTLSVerifyBackend=true", LogRequest("main", False, False, False, None, None)),
    ],
)
async def test_options_reach_the_node(scene: Scene, query: str, wanted: LogRequest) -> None:
    await scene.pod("web")
    answer = await scene.raw("GET", f"{BASE}?{query}")
    assert answer.status == 200
    assert b"web main\n" in answer.body
    assert scene.machine.log_requests == [wanted]


@pytest.mark.parametrize(
    ("state", "query", "words"),
    [
        ("waiting", "", "is waiting to start: "),
        ("running", "previous=true", 'previous terminated container "main" in pod "web" not found'),
    ],
)
async def test_there_is_no_log_yet(scene: Scene, state: str, query: str, words: str) -> None:
    await scene.pod("web", state=state)
    answer = await scene.raw("GET", f"{BASE}?{query}")
    assert answer.status == 400
    assert words in answer.json["message"]

"""Options of a log request that reach the kubelet."""

from datetime import UTC, datetime

import pytest

from kilonova.local.kubelet_api import LogRequest
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

BASE = "/api/v1/namespaces/default/pods/web/log"


@pytest.mark.parametrize(
    ("query", "expected"),
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
async def test_log_options_reach_the_kubelet(
    streaming_cluster: StreamingCluster, query: str, expected: LogRequest
) -> None:
    await streaming_cluster.pod("web")
    response = await streaming_cluster.raw("GET", f"{BASE}?{query}")
    assert response.status == 200
    assert b"web main\n" in response.body
    assert streaming_cluster.machine.log_requests == [expected]


@pytest.mark.parametrize(
    ("state", "query", "message"),
    [
        ("waiting", "", "is waiting to start: "),
        ("running", "previous=true", 'previous terminated container "main" in pod "web" not found'),
    ],
)
async def test_log_of_a_waiting_container_is_rejected(
    streaming_cluster: StreamingCluster, state: str, query: str, message: str
) -> None:
    await streaming_cluster.pod("web", state=state)
    response = await streaming_cluster.raw("GET", f"{BASE}?{query}")
    assert response.status == 400
    assert message in response.json["message"]

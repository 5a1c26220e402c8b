"""What a server answers that does not speak the protocol, or means harm: the loader goes on."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from kilonova.api.serving import ServerPorts
from kilonova.serving.models import server_api
from kilonova.serving.models.server_api import ServerApi, ServerFailed, connect_server
from tests.serving.signals.test_service_poll import respond, scripted_server

HUGE = "1" + 400 * "0"


@contextlib.asynccontextmanager
async def answering(sent: bytes, asked: list[str] | None = None) -> AsyncGenerator[ServerApi]:
    """A server that answers everything by this."""

    def answer(path: str) -> bytes:
        if asked is not None:
            asked.append(path)
        return sent

    async with scripted_server(answer) as port:
        api = connect_server("127.0.0.1", ServerPorts(http=port))
        try:
            yield api
        finally:
            await api.close()


@pytest.mark.parametrize("value", ["-1", HUGE, "1.5", '"1"', "null"])
@pytest.mark.parametrize("field", ["count", "ns"])
async def test_counter_that_cannot_be_is_no_answer(field: str, value: str) -> None:
    stats = f'{{"name":"cat","inference_stats":{{"success":{{"{field}":{value}}}}}}}'
    async with answering(respond(f'{{"model_stats":[{stats}]}}')) as api:
        with pytest.raises(ServerFailed, match="its answer is not of the v2 protocol"):
            await api.read_counters()


async def test_redirect_is_not_followed() -> None:
    asked: list[str] = []
    head = "HTTP/1.1 307 Elsewhere\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with answering(head.encode(), asked) as api:
        with pytest.raises(ServerFailed, match="it answers with 307"):
            await api.read_counters()
    assert asked == ["/v2/models/stats"]


async def test_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_api, "MAX_REPLY_BYTES", 1000)
    async with answering(respond("x" * 1001)) as api:
        with pytest.raises(ServerFailed, match="its answer is larger than 1000 bytes"):
            await api.load("cat")


async def test_long_reason_of_a_server_is_shortened() -> None:
    body = '{"error":"' + "x" * 9000 + '"}'
    head = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(body)}\r\n\r\n"
    async with answering((head + body).encode()) as api:
        with pytest.raises(ServerFailed) as failed:
            await api.load("cat")
    assert len(str(failed.value)) == 500

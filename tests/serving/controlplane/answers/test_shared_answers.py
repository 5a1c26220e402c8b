"""Equal questions at about the same time are asked once. In virtual time."""

import asyncio

import pytest

from kilonova.serving.controlplane.answers.shared_answers import AnswerKey, SharedAnswers
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

KEY: AnswerKey = (("default", "web"), "main", ("repository_index", b""))


class Server:
    """Answers with the number of the question, after a second."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked = 0
        self.fails = fails

    async def ask(self) -> int:
        self.asked += 1
        await asyncio.sleep(1)
        if self.fails:
            raise ValueError("out of order")
        return self.asked


async def test_clients_that_ask_together_share_an_answer() -> None:
    server, shared = Server(), SharedAnswers(0.5)
    assert await asyncio.gather(*(shared.get(KEY, server.ask) for _ in range(1000))) == [1] * 1000


async def test_answer_is_given_again_for_a_while() -> None:
    server, shared = Server(), SharedAnswers(0.5)
    await shared.get(KEY, server.ask)
    await asyncio.sleep(0.4)
    assert await shared.get(KEY, server.ask) == 1
    await asyncio.sleep(0.2)
    assert await shared.get(KEY, server.ask) == 2


async def test_answer_is_forgotten_when_the_servers_change() -> None:
    server, shared = Server(), SharedAnswers(0.5)
    await shared.get(KEY, server.ask)
    shared.forget(("default", "other"))
    assert await shared.get(KEY, server.ask) == 1
    shared.forget(("default", "web"))
    assert await shared.get(KEY, server.ask) == 2


async def test_client_that_gives_up_does_not_end_the_question_of_others() -> None:
    server, shared = Server(), SharedAnswers(0.5)
    first, second = (asyncio.create_task(shared.get(KEY, server.ask)) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == 1


async def test_failure_is_not_kept() -> None:
    server, shared = Server(fails=True), SharedAnswers(0.5)
    with pytest.raises(ValueError, match="out of order"):
        await shared.get(KEY, server.ask)
    server.fails = False
    assert await shared.get(KEY, server.ask) == 2

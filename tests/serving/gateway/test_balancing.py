"""How a server is chosen, and what happens when one is lost."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from kilonova.api.serving import HashKey, LoadBalancing
from kilonova.api.serving.gateway import BalancingPolicy
from kilonova.serving.gateway.model import GatewayState
from tests.serving.gateway.support.clients import call, open_channel, open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    DRAINING,
    build_gateway,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import Upstream, run_upstream
from tests.serving.gateway.support.waiting import wait_until


@contextlib.asynccontextmanager
async def run_upstreams(count: int) -> AsyncGenerator[list[Upstream]]:
    """Servers of one group."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(run_upstream(f"main-{i}")) for i in range(count)]


def build_servers(upstreams: list[Upstream]) -> GatewayState:
    return build_state([each.endpoint for each in upstreams])


def build_hashed(policy: BalancingPolicy, *keys: HashKey):
    balancing = LoadBalancing(policy=policy, hash=keys)
    return build_spec(gateway=build_gateway(load_balancing=balancing))


@pytest.mark.parametrize("policy", ["LeastRequest", "RoundRobin", "Random"])
async def test_requests_are_spread_over_all_servers(policy):
    async with run_upstreams(3) as upstreams:
        spec = build_spec(gateway=build_gateway(load_balancing=LoadBalancing(policy=policy)))
        async with (
            run_gateway(spec, build_servers(upstreams)),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            await asyncio.gather(*(call(channel) for _ in range(150)))
            assert all(len(each.received) >= 20 for each in upstreams), [
                len(each.received) for each in upstreams
            ]


@pytest.mark.parametrize("policy", ["RingHash", "Maglev"])
async def test_same_header_reaches_the_same_server(policy):
    async with run_upstreams(4) as upstreams:
        spec = build_hashed(policy, HashKey("Header", name="x-session"))
        async with (
            run_gateway(spec, build_servers(upstreams)),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            servers: dict[int, set[bytes]] = {}
            for session in range(20):
                for _ in range(4):
                    answer = await call(channel, metadata=[("x-session", str(session))])
                    servers.setdefault(session, set()).add(answer)
            assert all(len(each) == 1 for each in servers.values())
            assert len(set.union(*servers.values())) >= 3, "different sessions are spread"


async def test_cookie_is_given_to_clients_and_keeps_their_server():
    async with run_upstreams(4) as upstreams:
        spec = build_hashed("RingHash", HashKey("Cookie", name="session", ttl="1h"))
        async with run_gateway(spec, build_servers(upstreams)):
            seen: set[str] = set()
            for _ in range(8):
                jar = aiohttp.CookieJar(unsafe=True)
                url = f"http://127.0.0.1:{spec.gateway.http_port}/v2/models/m"
                async with aiohttp.ClientSession(cookie_jar=jar) as session:
                    answers = set()
                    for _ in range(4):
                        async with session.get(url) as reply:
                            answers.add(await reply.text())
                    assert len(answers) == 1
                    seen |= answers
            assert len(seen) >= 2


async def test_client_address_keeps_its_server():
    async with run_upstreams(4) as upstreams:
        spec = build_hashed("Maglev", HashKey("ClientAddress"))
        async with run_gateway(spec, build_servers(upstreams)):
            answers = set()
            for _ in range(8):
                async with (
                    open_session(spec.gateway.http_port) as session,
                    session.get("/v2/models/m") as reply,
                ):
                    answers.add(await reply.text())
            assert len(answers) == 1


async def test_same_beginning_of_a_prompt_reaches_the_same_server():
    async with run_upstreams(4) as upstreams:
        spec = build_hashed("RingHash", HashKey("PromptPrefix", prefix_length=64))
        async with (
            run_gateway(spec, build_servers(upstreams)) as gateway,
            open_session(spec.gateway.http_port) as session,
        ):

            async def ask(prompt: str, **fields: object) -> str:
                body = {"model": "m", **fields, "prompt": prompt}
                async with session.post("/v1/completions", json=body) as reply:
                    return await reply.text()

            found: set[str] = set()
            for i in range(12):
                prefix = f"system prompt number {i} " + "x" * 64
                answers = {await ask(prefix + f" question {j}", n=j) for j in range(4)}
                assert len(answers) == 1, gateway.read_log()
                found |= answers
            assert len(found) >= 3
            chat = {"messages": [{"role": "system", "content": "y" * 80}], "model": "m"}
            hashes = set()
            for question in ("a", "b"):
                turns = [*chat["messages"], {"role": "user", "content": question}]
                async with session.post("/v1/chat/completions", json=chat | {"messages": turns}):
                    pass
            for each in upstreams:
                for request in each.received:
                    if request.path.endswith("chat/completions"):
                        hashes.add(request.headers.get("x-kilonova-prompt"))
            assert len(hashes) == 1
            assert None not in hashes


async def test_server_that_drains_finishes_and_gets_no_further_request():
    async with run_upstreams(2) as (leaving, staying):
        spec = build_spec(gateway=build_gateway())
        leaving.grpc_gate.clear()
        staying.grpc_gate.set()
        async with (
            run_gateway(spec, build_servers([leaving])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            first = asyncio.ensure_future(call(channel))
            await wait_until(lambda: leaving.in_flight == 1)
            gateway.apply(
                spec, build_state([leaving.build_endpoint(state=DRAINING), staying.endpoint])
            )
            await gateway.wait_for_endpoints()
            assert set(await asyncio.gather(*(call(channel) for _ in range(20)))) == {b"main-1"}
            leaving.grpc_gate.set()
            assert await first == b"main-0"

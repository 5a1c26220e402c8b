"""Questions about all servers are answered by the control plane."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest

from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.serving.gateway.config.routing.service_answers import SETTINGS_MESSAGE
from kilonova.serving.gateway.control_plane_calls import (
    SERVICE_HEADER,
    TOKEN_HEADER,
    derive_call_token,
)
from tests.serving.gateway.support.clients import call, open_channel, open_session, try_call
from tests.serving.gateway.support.control_plane import ANSWER, run_control_plane
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    CONTROL_PLANE,
    TOKEN,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until


async def test_control_plane_answers_for_the_service():
    async with run_control_plane() as control_plane, run_upstream() as upstream:
        spec = build_spec(
            build_group(), build_group("llm", protocol="OpenAI"), gateway=build_gateway()
        )
        state = build_state([upstream.endpoint], control_plane=control_plane.address)
        async with (
            run_gateway(spec, state),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            for method in ("RepositoryIndex", "ModelStatistics", "ServerMetadata"):
                assert await call(channel, method, b"abc") == ANSWER
            asked = (
                ("GET", "/v2"),
                ("POST", "/v2/repository/index"),
                ("GET", "/v2/models/stats"),
                ("GET", "/v2/models/m/stats"),
                ("GET", "/v2/models/m/versions/1/stats"),
                ("GET", "/v1/models"),
            )
            forged = {TOKEN_HEADER: "guessed", SERVICE_HEADER: "other/service"}
            for method, path in asked:
                async with session.request(method, path, headers=forged) as reply:
                    assert await reply.read() == ANSWER, path
            assert upstream.received == []
            assert [each.path for each in control_plane.answered[3:]] == [path for _, path in asked]
            assert control_plane.answered[0].body == b"abc"
            for each in control_plane.answered:
                headers = {name.lower(): value for name, value in each.headers.items()}
                assert headers[TOKEN_HEADER] == derive_call_token(TOKEN)
                assert headers[SERVICE_HEADER] == "default/web"
            # What is about one server, or about a model, goes to a server.
            assert await call(channel, "ModelMetadata") == b"main-0"
            assert await call(channel, "ServerReady") == b"main-0"


async def test_server_answers_for_itself_while_the_control_plane_is_away():
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint], control_plane=CONTROL_PLANE)),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            assert await call(channel, "RepositoryIndex") == b"main-0"
            async with session.post("/v2/repository/index") as reply:
                assert await reply.text() == "main-0"


async def test_question_about_the_models_starts_a_service_at_rest():
    async with run_control_plane() as control_plane:
        spec = build_spec(gateway=build_gateway())
        idle = build_state(control_plane=control_plane.address, starting=frozenset({"main"}))
        async with (
            run_gateway(spec, idle),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            assert await call(channel, "ServerReady") == ANSWER
            async with session.get("/v2/health/ready") as reply:
                assert await reply.read() == ANSWER
            assert control_plane.checks == [], "a question about its health does not start it"
            index = asyncio.ensure_future(call(channel, "RepositoryIndex"))
            await wait_until(lambda: control_plane.checks == [{"group": "main"}])
            control_plane.release()
            assert await index == ANSWER


@pytest.mark.parametrize("method", ["RepositoryModelLoad", "RepositoryModelUnload"])
async def test_loading_is_refused_by_name(method):
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            status, message = await try_call(channel, method)
            assert status.name == "PERMISSION_DENIED"
            assert "spec.servers[].modelPlacement" in message
            path = f"/v2/repository/models/m/{method.removeprefix('RepositoryModel').lower()}"
            async with session.post(path) as reply:
                assert reply.status == 403
                assert "modelPlacement" in (await reply.json())["error"]
            assert upstream.received == []


_SETTING_PATHS = (
    "/v2/logging",
    "/v2/logging?a=b",
    "/v2/trace/setting",
    "/v2/models/m/trace/setting",
    "/v2/models/m/versions/1/trace/setting",
)


async def test_settings_of_one_server_are_refused_by_name():
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            for method in ("LogSettings", "TraceSetting"):
                status, message = await try_call(channel, method)
                assert (status.name, message) == ("PERMISSION_DENIED", SETTINGS_MESSAGE)
            for method, path in product(("GET", "POST"), _SETTING_PATHS):
                async with session.request(method, path) as reply:
                    assert (reply.status, path) == (403, path)
                    assert await reply.json() == {"error": SETTINGS_MESSAGE}
            assert upstream.received == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_control_plane_is_asked_over_tls_and_has_to_be_the_one(host):
    now = datetime.now(UTC)
    authority, other = (CertificateAuthority.create(name, now) for name in ("ours", "other"))
    async with run_control_plane(host, authority=authority) as control_plane:
        control_plane.release()
        spec = build_spec(gateway=build_gateway())
        impostor = replace(control_plane.address, ca=other.cert_pem.decode())
        for address, expected in ((control_plane.address, "OK"), (impostor, "UNAVAILABLE")):
            idle = build_state(control_plane=address, starting=frozenset({"main"}))
            async with (
                run_gateway(spec, idle),
                open_channel(spec.gateway.grpc_port) as channel,
                open_session(spec.gateway.http_port) as session,
            ):
                assert (await try_call(channel, "ServerReady"))[0].name == expected
                async with session.get("/v2/health/ready") as reply:
                    assert (reply.status == 200) is (expected == "OK")

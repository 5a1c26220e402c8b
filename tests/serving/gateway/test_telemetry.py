"""What the gateway tells of requests: its log, its traces and its statistics."""

import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator

import grpc
import grpc.aio
import pytest

from kilonova.api.serving import ApiKeys, Auth, Tracing
from kilonova.serving.gateway.model import GatewaySecrets
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.clients import build_infer, call, open_channel, open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import build_gateway, build_spec, build_state
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until

KEY = "kn-0123456789"
SECRETS = GatewaySecrets(api_keys=(("team-a", hashlib.sha256(KEY.encode()).hexdigest()),))
_LABEL = '{envoy_http_conn_manager_prefix="ingress_grpc"}'


async def test_access_log_is_json_without_secrets():
    async with run_upstream() as upstream:
        spec = build_spec(
            auth=Auth(api_keys=ApiKeys(secret="keys")), gateway=build_gateway(access_log=True)
        )
        state = build_state([upstream.endpoint], secrets=SECRETS)
        async with (
            run_gateway(spec, state) as gateway,
            open_session(spec.gateway.http_port) as session,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            headers = {"x-api-key": KEY}
            async with session.get("/v2/models/m?access_token=secret", headers=headers):
                pass
            await call(channel, metadata=list(headers.items()))

            def read() -> list[dict[str, object]]:
                lines = gateway.read_log().splitlines()
                return [json.loads(line) for line in lines if line.startswith("{")]

            await wait_until(lambda: len(read()) == 2)
            over_http, over_grpc = read()
            assert over_http["path"] == "/v2/models/m"
            assert over_http["client"] == "team-a"
            assert (over_http["status"], over_http["server"]) == (200, "main-0")
            assert over_grpc["grpcStatus"] == "OK"
            assert "secret" not in gateway.read_log()
            assert KEY not in gateway.read_log()


@contextlib.asynccontextmanager
async def run_collector() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A collector of OTLP over gRPC: its port, and the messages that it got."""
    messages: list[bytes] = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            async def export(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
                messages.append(request)
                return b""

            return grpc.unary_unary_rpc_method_handler(export)

    port = find_free_port()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield port, messages
    finally:
        await server.stop(None)


async def test_traces_go_to_the_collector_and_on_to_the_server():
    async with run_collector() as (port, messages), run_upstream() as upstream:
        tracing = Tracing(endpoint=f"127.0.0.1:{port}", sampling_percent=100)
        spec = build_spec(gateway=build_gateway(tracing=tracing))
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            trace = "0af7651916cd43dd8448eb211c80319c"
            parent = [("traceparent", f"00-{trace}-b7ad6b7169203331-01")]
            await call(channel, message=build_infer("m"), metadata=parent)
            await wait_until(lambda: bytes.fromhex(trace) in b"".join(messages))
            assert b"default/web" in b"".join(messages)
            assert trace in upstream.received[0].headers["traceparent"]


async def test_statistics_have_the_names_of_dashboards():
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(gateway.stats_port) as stats,
        ):
            await call(channel)

            async def read() -> str:
                async with stats.get("/stats/prometheus") as reply:
                    return await reply.text()

            text = ""
            for _ in range(100):
                text = await read()
                if (
                    'downstream_rq_time_count{envoy_http_conn_manager_prefix="ingress_grpc"} 1'
                    in text
                ):
                    break
            assert (
                'envoy_http_downstream_rq_time_sum{envoy_http_conn_manager_prefix="ingress_grpc"}'
                in text
            )
            for name in (
                "envoy_cluster_upstream_rq_total",
                "envoy_cluster_upstream_rq_active",
                "envoy_cluster_upstream_rq_pending_active",
                "envoy_cluster_upstream_rq_time_bucket",
                "envoy_cluster_upstream_rq_xx",
                "envoy_cluster_membership_healthy",
                "envoy_http_downstream_rq_active",
                "envoy_http_downstream_cx_active",
            ):
                assert f"{name}{{" in text, name
            assert 'envoy_cluster_name="server/main"' in text
            assert len(text.splitlines()) < 900, "only what somebody reads"


@pytest.mark.parametrize("path", ["/", "/config_dump", "/quitquitquit", "/stats/recentlookups"])
async def test_administration_is_not_served(path):
    spec = build_spec(gateway=build_gateway())
    async with (
        run_gateway(spec, build_state()) as gateway,
        open_session(gateway.stats_port) as stats,
    ):
        for method in ("GET", "POST"):
            async with stats.request(method, path) as reply:
                assert reply.status == 404
        async with stats.post("/stats") as reply:
            assert reply.status == 404
        async with stats.get("/ready") as reply:
            assert await reply.text() == "LIVE\n"

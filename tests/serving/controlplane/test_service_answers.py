"""Questions about a whole service, asked through a real gateway."""

import asyncio

import aiohttp
import grpc
import grpc.aio
import pytest

from kilonova.serving.gateway.control_plane_calls import (
    SERVICE_HEADER,
    TOKEN_HEADER,
    build_call_headers,
    derive_call_token,
)
from kilonova.serving.grpc import inference_pb2 as pb
from tests.local.embedded_cluster import wait_for_condition
from tests.serving.controlplane.support.control_plane_cluster import (
    KEY,
    TOKEN,
    ControlPlaneCluster,
    control_plane_cluster,
    group_of,
    scaled_from_zero,
)
from tests.serving.controlplane.support.model_servers import Ports
from tests.serving.controlplane.support.traffic import (
    infer,
    open_session,
    open_stub,
    steady_traffic,
)


async def test_answers_are_those_of_all_servers() -> None:
    async with control_plane_cluster() as cluster:
        ports, other = Ports(), Ports()
        await cluster.create_service(group_of(ports, replicas=3), group_of(other, "other"))
        await cluster.start_server("web-main-0", ports, "add", "shared")
        await cluster.start_server("web-main-1", ports, "multiply", "shared")
        broken = await cluster.start_server("web-main-2", ports, "never")
        broken.answers_questions = False
        await cluster.start_server("web-other-0", other, "resnet", group="other")
        await cluster.start_gateway()
        async with open_stub(cluster.grpc_port) as stub:
            index = await stub.repository_index(pb.RepositoryIndexRequest(), timeout=5)
            assert [each.name for each in index.models] == ["add", "multiply", "resnet", "shared"]
            for _ in range(12):
                await stub.model_infer(infer("shared"), timeout=5)
            statistics = await stub.model_statistics(
                pb.ModelStatisticsRequest(name="shared"), timeout=5
            )
            shared = next(each for each in statistics.model_stats if each.name == "shared")
            assert shared.inference_count == 12 - broken.served
            assert shared.inference_stats.success.ns == 1000 * shared.inference_count
            metadata = await stub.server_metadata(pb.ServerMetadataRequest(), timeout=5)
            assert list(metadata.extensions) == ["statistics"]
        async with open_session(cluster.http_port) as session:
            async with session.post("/v2/repository/index", json={"ready": True}) as response:
                names = [each["name"] for each in await response.json()]
            assert names == ["add", "multiply", "resnet", "shared"]
            async with session.get("/v2/models/shared/stats") as response:
                (entry,) = [
                    each
                    for each in (await response.json())["model_stats"]
                    if each["name"] == "shared"
                ]
            assert entry["inference_count"] == shared.inference_count
        assert cluster.read_metric("kilonova_serving_failed_questions_total") > 0


async def test_models_of_openai_servers_are_listed_together() -> None:
    async with control_plane_cluster() as cluster:
        ports, other = Ports(), Ports()
        await cluster.create_service(
            group_of(ports, protocol="OpenAI"), group_of(other, "other", protocol="OpenAI")
        )
        await cluster.start_server("web-main-0", ports, "llama")
        await cluster.start_server("web-other-0", other, "qwen", group="other")
        await cluster.start_gateway()
        async with (
            open_session(cluster.http_port) as session,
            session.get("/v1/models") as response,
        ):
            models = await response.json()
    assert [each["id"] for each in models["data"]] == ["llama", "qwen"]


async def test_index_of_a_service_at_rest_starts_it() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports))
        await cluster.start_gateway()
        async with open_stub(cluster.grpc_port) as stub:
            asked = asyncio.create_task(_list_models(stub))
            await _wait_for_held(cluster)
            await cluster.start_server("web-main-0", ports, "add")
            assert await asked == ["add"]


async def test_group_at_rest_is_answered_for_by_what_it_said_last() -> None:
    async with control_plane_cluster() as cluster:
        ports, other = Ports(), Ports()
        await cluster.create_service(
            group_of(ports),
            scaled_from_zero(other, "other"),
            routes=[{"models": ["resnet"], "backends": [{"server": "other"}]}],
        )
        await cluster.start_server("web-main-0", ports, "add")
        await cluster.start_gateway()
        async with open_stub(cluster.grpc_port) as stub:
            # What a route says is all that is known.
            assert await _list_models(stub) == ["add", "resnet"]
            await cluster.start_server("web-other-0", other, "resnet", "bert", group="other")
            await _wait_for_models(stub, ["add", "bert", "resnet"])
            await cluster.delete_pod("web-other-0", grace=0)
            async with steady_traffic(cluster.grpc_port, clients=1, model="resnet"):
                await _wait_for_held(cluster, "other")
                assert await _list_models(stub) == ["add", "bert", "resnet"]


async def test_questions_without_the_token_of_the_gateway_are_refused() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports, "add")
        await cluster.start_gateway()
        async with open_stub(cluster.settings.control_plane_port) as stub:
            for metadata in (
                (),
                ((SERVICE_HEADER, "default/web"), (TOKEN_HEADER, "guessed")),
                # The token of the configuration is another one.
                ((SERVICE_HEADER, "default/web"), (TOKEN_HEADER, TOKEN)),
                ((SERVICE_HEADER, "web"), (TOKEN_HEADER, derive_call_token(TOKEN))),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stub.repository_index(
                        pb.RepositoryIndexRequest(), metadata=metadata, timeout=5
                    )
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        async with (
            open_session(cluster.settings.control_plane_http_port) as session,
            session.get("/v2", headers={SERVICE_HEADER: "default/web"}) as response,
        ):
            assert response.status == 401


@pytest.fixture(name="asked")
async def asked_directly():
    """A service with a server, asked at the HTTP port of the control plane as a gateway does."""
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports, "add")
        await cluster.start_gateway()
        headers = build_call_headers(KEY, TOKEN)
        base = f"http://127.0.0.1:{cluster.settings.control_plane_http_port}"
        async with aiohttp.ClientSession(base, headers=headers) as session:
            yield session


async def test_paths_of_the_v2_protocol(asked: aiohttp.ClientSession) -> None:
    expected = {
        "/v2": (200, {"name": "test", "version": "1", "extensions": ["statistics"]}),
        "/v2/health/live": (200, None),
        "/v2/health/ready": (200, None),
        "/v2/models/add/ready": (200, None),
        "/v2/models/none/ready": (503, None),
        "/v2/models/none/config": (404, {"error": "model 'none' is not known"}),
        "/v2/models/add/config": (200, {"name": "add", "max_batch_size": 8}),
        "/v2/models/add/versions/1": (200, {"name": "add", "versions": ["1"]}),
        "/v2/other": (404, {"error": "no such path: /v2/other"}),
    }
    for path, (status, content) in expected.items():
        async with asked.get(path) as response:
            body = await response.read()
            assert response.status == status, path
            if content is None:
                assert body == b"", path
            else:
                assert content.items() <= (await response.json()).items(), path


async def test_dimensions_are_numbers(asked: aiohttp.ClientSession) -> None:
    async with asked.get("/v2/models/add") as response:
        metadata = await response.json()
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


async def _list_models(stub) -> list[str]:
    index = await stub.repository_index(pb.RepositoryIndexRequest(), timeout=10)
    return [each.name for each in index.models]


async def _wait_for_models(stub, names: list[str]) -> None:
    async def are_listed() -> bool:
        return await _list_models(stub) == names

    await wait_for_condition(are_listed, within=10, every=0.02)


async def _wait_for_held(cluster: ControlPlaneCluster, group: str = "main") -> None:
    async def is_held() -> bool:
        assert cluster.control_plane is not None
        return cluster.control_plane.held.count(KEY, group) == 1

    await wait_for_condition(is_held, within=10, every=0.01)

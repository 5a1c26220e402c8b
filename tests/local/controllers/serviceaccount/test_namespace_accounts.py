"""The ServiceAccount and root CA of every namespace, and token Secrets."""

from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Metadata
from kilonova.kube import Client
from kilonova.kube.client.transport import Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.controllers.serviceaccount.namespace_objects import (
    ManagedObject,
    build_repair_patch,
)
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    advance_time,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

DESCRIPTION_ANNOTATION = "kubernetes.io/description"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Client:
    return cluster.client("test")


async def another(client: Client, resource: Any, name: str, uid: str) -> Any:
    """The object of that name with another uid."""
    found: Any = None

    async def there() -> bool:
        nonlocal found
        found = await find(client, resource, name)
        return found is not None and found["metadata"]["uid"] != uid

    await wait_for_condition(there)
    return found


@pytest.mark.parametrize(
    ("resource", "name"), [(ACCOUNTS, "default"), (CONFIG_MAPS, "kube-root-ca.crt")]
)
async def test_deleted_object_is_recreated(client: Client, resource: Any, name: str) -> None:
    first = await another(client, resource, name, "")
    await client.delete(resource, name, "default")
    assert await another(client, resource, name, first["metadata"]["uid"])


@pytest.mark.parametrize(
    ("data", "annotations", "patch"),
    [
        ({"ca.crt": "pem"}, {DESCRIPTION_ANNOTATION: "changed"}, None),
        ({"ca.crt": "old"}, {DESCRIPTION_ANNOTATION: "x"}, {"data": {"ca.crt": "pem"}}),
        (
            {"ca.crt": "pem", "more": "x"},
            {},
            {
                "data": {"ca.crt": "pem", "more": None},
                "metadata": {"annotations": {DESCRIPTION_ANNOTATION: "text"}},
            },
        ),
    ],
)
def test_root_ca_config_map_has_its_data_and_description(
    data: dict[str, str], annotations: dict[str, str], patch: Any
) -> None:
    present = ManagedObject(Metadata("kube-root-ca.crt", "u", "1", annotations=annotations), data)
    expected = {
        "metadata": {"name": "x", "annotations": {DESCRIPTION_ANNOTATION: "text"}},
        "data": {"ca.crt": "pem"},
    }
    assert build_repair_patch(present, expected) == patch


async def test_idle_controllers_write_nothing(cluster: EmbeddedCluster, client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "new"}})
    await advance_time()
    before = cluster.store.revision
    await advance_time(60)
    assert cluster.store.revision == before


def token_secret(name: str, account: str) -> Any:
    notes = {"kubernetes.io/service-account.name": account}
    kind = "kubernetes.io/service-account-token"
    return {"metadata": {"name": name, "annotations": notes}, "type": kind}


async def wait_filled(client: Client, name: str) -> Any:
    secret: Any = None

    async def has_token() -> bool:
        nonlocal secret
        secret = await find(client, SECRETS, name)
        return bool(secret and secret.get("data", {}).get("token"))

    await wait_for_condition(has_token)
    return secret


async def review(client: Client, token: str) -> Any:
    body = msgspec.json.encode({"spec": {"token": token}})
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    headers = {"content-type": "application/json"}
    reply = await client.send(Request("POST", path, headers=headers, body=body))
    return msgspec.json.decode(reply.body)["status"]


async def test_token_secret_has_a_token_until_it_is_deleted(client: Client) -> None:
    await client.create(SECRETS, token_secret("mine", "default"), "default")
    secret = await wait_filled(client, "mine")
    assert b64decode(secret["data"]["namespace"]) == b"default"
    assert b64decode(secret["data"]["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE")
    account = await client.get(ACCOUNTS, "default", "default")
    noted = secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"]
    assert noted == account["metadata"]["uid"]
    token = b64decode(secret["data"]["token"]).decode()
    status = await review(client, token)
    assert status["user"]["username"] == "system:serviceaccount:default:default"
    await client.delete(SECRETS, "mine", "default")
    assert "invalidated" in (await review(client, token))["error"]


async def test_token_secret_is_deleted_with_its_account(client: Client) -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": "robot"}}, "default")
    await client.create(SECRETS, token_secret("of-robot", "robot"), "default")
    await wait_filled(client, "of-robot")
    await client.create(SECRETS, token_secret("of-nobody", "nobody"), "default")
    await wait_deleted(client, SECRETS, "of-nobody")
    await client.delete(ACCOUNTS, "robot", "default")
    await wait_deleted(client, SECRETS, "of-robot")

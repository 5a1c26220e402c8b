"""The account and the authority that every namespace has, and secrets with tokens."""

from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Metadata
from kilonova.kube import Client
from kilonova.kube.transport import Request
from kilonova.local.cluster import Cluster
from kilonova.local.controllers.accounts import Furniture, amendment
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    eventually,
    find,
    gone,
    running,
    settle,
)

pytestmark = pytest.mark.looptime

NOTE = "kubernetes.io/description"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client("test")


async def another(client: Client, resource: Any, name: str, uid: str) -> Any:
    """The object of that name that is not the one of this uid."""
    found: Any = None

    async def there() -> bool:
        nonlocal found
        found = await find(client, resource, name)
        return found is not None and found["metadata"]["uid"] != uid

    await eventually(there)
    return found


@pytest.mark.parametrize(
    ("resource", "name"), [(ACCOUNTS, "default"), (CONFIG_MAPS, "kube-root-ca.crt")]
)
async def test_what_is_deleted_is_made_again(client: Client, resource: Any, name: str) -> None:
    first = await another(client, resource, name, "")
    await client.delete(resource, name, "default")
    assert await another(client, resource, name, first["metadata"]["uid"])


@pytest.mark.parametrize(
    ("data", "annotations", "patch"),
    [
        ({"ca.crt": "pem"}, {NOTE: "said otherwise"}, None),
        ({"ca.crt": "old"}, {NOTE: "x"}, {"data": {"ca.crt": "pem"}}),
        (
            {"ca.crt": "pem", "more": "x"},
            {},
            {
                "data": {"ca.crt": "pem", "more": None},
                "metadata": {"annotations": {NOTE: "text"}},
            },
        ),
    ],
)
def test_an_authority_has_its_data_and_its_note(
    data: dict[str, str], annotations: dict[str, str], patch: Any
) -> None:
    present = Furniture(Metadata("kube-root-ca.crt", "u", "1", annotations=annotations), data)
    wanted = {"metadata": {"name": "x", "annotations": {NOTE: "text"}}, "data": {"ca.crt": "pem"}}
    assert amendment(present, wanted) == patch


async def test_at_rest_nothing_is_written(cluster: Cluster, client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "new"}})
    await settle()
    before = cluster.store.rv
    await settle(60)
    assert cluster.store.rv == before


def token_secret(name: str, account: str) -> Any:
    notes = {"kubernetes.io/service-account.name": account}
    kind = "kubernetes.io/service-account-token"
    return {"metadata": {"name": name, "annotations": notes}, "type": kind}


async def filled(client: Client, name: str) -> Any:
    secret: Any = None

    async def has_token() -> bool:
        nonlocal secret
        secret = await find(client, SECRETS, name)
        return bool(secret and secret.get("data", {}).get("token"))

    await eventually(has_token)
    return secret


async def review(client: Client, token: str) -> Any:
    body = msgspec.json.encode({"spec": {"token": token}})
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    headers = {"content-type": "application/json"}
    reply = await client.send(Request("POST", path, headers=headers, body=body))
    return msgspec.json.decode(reply.body)["status"]


async def test_a_token_secret_holds_a_token_while_it_lives(client: Client) -> None:
    await client.create(SECRETS, token_secret("mine", "default"), "default")
    secret = await filled(client, "mine")
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


async def test_a_token_secret_goes_with_its_account(client: Client) -> None:
    await client.create(ACCOUNTS, {"metadata": {"name": "robot"}}, "default")
    await client.create(SECRETS, token_secret("of-robot", "robot"), "default")
    await filled(client, "of-robot")
    await client.create(SECRETS, token_secret("of-nobody", "nobody"), "default")
    await gone(client, SECRETS, "of-nobody")
    await client.delete(ACCOUNTS, "robot", "default")
    await gone(client, SECRETS, "of-robot")

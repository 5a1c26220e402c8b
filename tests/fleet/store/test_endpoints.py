"""Endpoints as text: what they name, and what is wrong with those that are refused."""

import sys
from pathlib import Path

import pytest

from kilonova.fleet.store import FleetStore, open_fleet_store
from kilonova.fleet.store.endpoints import (
    S3_LIMITS,
    DirectoryEndpoint,
    Endpoint,
    KubernetesEndpoint,
    S3Endpoint,
    parse_endpoints,
)
from kilonova.kube.election import ApiLeaseStore
from kilonova.objectstore import S3Settings, StoreNotUsable


def s3(bucket: str, prefix: str = "", endpoint: str = "", region: str = "") -> S3Endpoint:
    settings = S3Settings(
        bucket=bucket, prefix=prefix, endpoint=endpoint, region=region, limits=S3_LIMITS
    )
    return S3Endpoint(settings)


B = s3("b")


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("s3://b", [B]),
        ("s3://b/", [B]),
        ("s3://b/fleet/a", [s3("b", prefix="fleet/a/")]),
        (
            "s3://b?endpoint=https://s3.example.com:9000&region=eu-1",
            [s3("b", endpoint="https://s3.example.com:9000", region="eu-1")],
        ),
        ("/var/fleet", [DirectoryEndpoint(Path("/var/fleet"))]),
        ("fleet", [DirectoryEndpoint(Path.cwd() / "fleet")]),
        ("file:///var/my%20fleet", [DirectoryEndpoint(Path("/var/my fleet"))]),
        ("kubernetes://fleet", [KubernetesEndpoint("fleet")]),
        (
            "kubernetes://fleet?context=hub&kubeconfig=/k",
            [KubernetesEndpoint("fleet", "hub", Path("/k"))],
        ),
        (
            "s3://b, /var/fleet,kubernetes://fleet",
            [B, DirectoryEndpoint(Path("/var/fleet")), KubernetesEndpoint("fleet")],
        ),
    ],
)
def test_endpoint_is_parsed(text: str, endpoints: list[Endpoint]) -> None:
    assert list(parse_endpoints(text)) == endpoints


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an endpoint is empty; use s3://BUCKET/PREFIX, a path"),
        ("/a,/b", "it names 2 endpoints; name one, or three"),
        ("/a,/b,/c,/d", "it names 4 endpoints"),
        ("/a,/b,/a", "it names an endpoint twice; name three places that fail independently"),
        ("/a,,/b", "an endpoint is empty"),
        ("http://b", "http:// is not supported; use s3://BUCKET/PREFIX"),
        ("s3:///fleet", "it names no bucket; use s3://BUCKET/PREFIX"),
        ("s3://b?zone=1", "the parameter 'zone' is unknown; known are endpoint, region"),
        ("s3://b#x", "the parameter '#x' is unknown"),
        ("s3://b?endpoint=example.com", "the endpoint is 'example.com'; use a URL"),
        ("file://host/fleet", "it names the host 'host'; use file:///PATH"),
        ("file:///fleet?x=1", "the parameter 'x' is unknown; leave it out"),
        ("kubernetes://", "it does not name a namespace alone; use kubernetes://NAMESPACE"),
        ("kubernetes://a/b", "it does not name a namespace alone"),
        ("kubernetes://a?cluster=b", "the parameter 'cluster' is unknown; known are context"),
        ("s3://[b", "Invalid IPv6 URL; use s3://BUCKET/PREFIX"),
    ],
)
def test_invalid_endpoint_is_refused_with_a_fix(text: str, message: str) -> None:
    with pytest.raises(StoreNotUsable) as error:
        parse_endpoints(text)
    assert message in str(error.value)


def test_credentials_in_an_endpoint_are_refused_and_not_repeated() -> None:
    for text in ("s3://key:secret@b", "s3://b?endpoint=https://key:secret@host"):
        with pytest.raises(StoreNotUsable, match="AWS_SECRET_ACCESS_KEY") as error:
            parse_endpoints(text)
        assert "secret@" not in str(error.value)


def test_bucket_without_the_extra_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(StoreNotUsable, match=r"boto3 is not installed; pip install 'kilonova\[s3"):
        open_fleet_store("s3://b")


async def test_store_in_the_api_is_led_by_a_lease(tmp_path: Path) -> None:
    with pytest.raises(StoreNotUsable, match="the file does not exist; check the path"):
        open_fleet_store(f"kubernetes://fleet?kubeconfig={tmp_path}/none")
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: hub\n"
        "contexts: [{name: hub, context: {cluster: hub, user: u}}]\n"
        "clusters: [{name: hub, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    store = open_fleet_store(f"kubernetes://fleet?kubeconfig={config}")
    assert isinstance(store, FleetStore)
    assert isinstance(store.lease, ApiLeaseStore)
    assert store.lease.name == "fleet/kilonova-fleet-manager"
    await store.close()

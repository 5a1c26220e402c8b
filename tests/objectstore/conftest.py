"""Object stores of every kind: a directory, a real S3 server, and moto's."""

import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kilonova.objectstore import DirectoryStore, ObjectStore, S3Limits, S3Settings, S3Store
from tests.harness.s3_server import S3Server
from tests.objectstore.moto_server import run_moto_server

_numbers = itertools.count(1)


@dataclass
class Stores:
    """One place for objects, and any number of clients of it."""

    connect: Callable[[], ObjectStore]
    connected: list[ObjectStore] = field(default_factory=list[ObjectStore])

    def open(self) -> ObjectStore:
        """A new client, closed with the test."""
        self.connected.append(self.connect())
        return self.connected[-1]


@dataclass(frozen=True)
class Bucket:
    """A new bucket."""

    name: str
    url: str
    folder: Path | None = None

    def settings(self, *, prefix: str = "", limits: S3Limits | None = None) -> S3Settings:
        return S3Settings(
            bucket=self.name,
            endpoint=self.url,
            region="us-east-1",
            prefix=prefix,
            limits=limits or S3Limits(),
        )


@pytest.fixture(scope="session")
def aws_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """Credentials where every AWS tool looks for them first, and nowhere else."""
    none = str(tmp_path_factory.mktemp("aws") / "none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", S3Server.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", S3Server.secret_key)
        patch.setenv("AWS_CONFIG_FILE", none)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", none)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield patch


@pytest.fixture(scope="session")
def s3_server(
    s3_server_part: Path, aws_environment: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    """A real S3 server."""
    with S3Server.start(s3_server_part, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def moto_url(aws_environment: object) -> Iterator[str]:
    """moto's S3 server, in threads of this process."""
    with run_moto_server() as url:
        yield url


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Bucket:
    """A bucket on the real server."""
    name = f"bucket-{next(_numbers)}"
    s3_server.create_bucket(name)
    return Bucket(name, s3_server.url, s3_server.folder / name)


@pytest.fixture
def moto_bucket(moto_url: str) -> Bucket:
    """A bucket on moto's server."""
    import boto3

    name = f"bucket-{next(_numbers)}"
    client = boto3.client("s3", endpoint_url=moto_url, region_name="us-east-1")
    client.create_bucket(Bucket=name)
    client.close()
    return Bucket(name, moto_url)


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.real_parts), "moto"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Stores]:
    """Each kind of store in turn: what passes on all of them is what the interface promises."""
    if request.param == "directory":
        stores = Stores(lambda: DirectoryStore(tmp_path / "store"))
    else:
        bucket: Bucket = request.getfixturevalue(f"{request.param}_bucket")
        settings = bucket.settings(prefix="team-a/")
        stores = Stores(lambda: S3Store(settings))
    yield stores
    for store in stores.connected:
        await store.close()


@pytest.fixture
def store(stores: Stores) -> ObjectStore:
    """One client."""
    return stores.open()

"""The lease as an object, on every store: what an election relies on, and replies that are lost."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.fleet.store.config_maps import ConfigMapStore
from kilonova.fleet.store.lease import KEY, ObjectLeaseStore
from kilonova.fleet.store.quorum import QuorumStore
from kilonova.kube.election import LeaseConflict, LeaseRecord, LeaseStore, LeaseUnavailable
from kilonova.objectstore import DirectoryStore, ObjectInfo, ObjectStore, Precondition, S3Store
from kilonova.objectstore import PreconditionFailed as ObjectChanged
from kilonova.objectstore import Unavailable as ObjectUnavailable
from tests.conftest import create_namespace
from tests.fleet.store.stores import Bucket, Link, MemoryStore
from tests.kube.election.test_lease_store import (
    FIRST,
    test_lease_is_created_once_read_and_replaced,
    test_one_of_many_candidates_wins_each_write,
    test_stale_version_conflicts,
)

ON_EVERY_STORE = (
    test_lease_is_created_once_read_and_replaced,
    test_one_of_many_candidates_wins_each_write,
    test_stale_version_conflicts,
)
REAL = pytest.mark.real_parts


class Places:
    """Opens stores of each kind."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._fixture = request.getfixturevalue
        self._folder = folder

    def open(self, kind: str) -> ObjectStore:
        match kind:
            case "memory":
                return MemoryStore(Bucket())
            case "directory":
                return DirectoryStore(self._folder)
            case "s3" | "moto":
                bucket: Any = self._fixture(f"{kind}_bucket")
                return S3Store(bucket.settings(prefix="fleet/"))
            case "embedded_server" | "control_plane":
                api = create_namespace(kind, self._fixture(kind).access)
                return ConfigMapStore(api.client(), api.namespace, f"kubernetes://{api.namespace}")
            case _:
                one, two, three = (self.open(each) for each in kind.split("+"))
                return QuorumStore((one, two, three))


@pytest.fixture(
    params=[
        "memory",
        "directory",
        "moto",
        "embedded_server",
        "memory+memory+memory",
        "directory+moto+embedded_server",
        pytest.param("s3", marks=REAL),
        pytest.param("control_plane", marks=REAL),
        pytest.param("directory+s3+control_plane", marks=REAL),
    ]
)
async def objects(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ObjectStore]:
    """Each kind of store, and three of different kinds."""
    objects = Places(request, tmp_path).open(request.param)
    yield objects
    await objects.close()


@pytest.fixture
def store(objects: ObjectStore) -> LeaseStore:
    """A lease in it."""
    return ObjectLeaseStore(objects)


async def test_deleted_lease_conflicts_and_can_be_created(
    objects: ObjectStore, store: LeaseStore
) -> None:
    created = await store.create(FIRST)
    await objects.delete(KEY)
    with pytest.raises(LeaseConflict):
        await store.replace(FIRST, created.version)
    assert (await store.create(FIRST)).record == FIRST


async def test_equal_records_have_different_versions() -> None:
    bucket = Bucket()
    store = ObjectLeaseStore(MemoryStore(bucket))
    first = await store.create(FIRST)
    second = await store.replace(FIRST, first.version)
    third = await store.replace(FIRST, second.version)
    assert len({first.version, second.version, third.version}) == 3


class LossyStore(MemoryStore):
    """A store whose next write takes effect and then fails, as if its reply was lost, or as if a
    proxy had sent it twice."""

    failure: Exception | None = None

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        info = await super().put(key, body, when)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return info


@pytest.mark.parametrize(
    "failure", [ObjectUnavailable("s3://b", "timeout"), ObjectChanged("s3://b/k", "changed")]
)
async def test_write_whose_reply_was_lost_is_recognised(failure: Exception) -> None:
    objects = LossyStore(Bucket())
    store = ObjectLeaseStore(objects)
    objects.failure = failure
    created = await store.create(FIRST)
    assert await store.read() == created
    objects.failure = failure
    renewed = await store.replace(replace(FIRST, renewed="later"), created.version)
    assert await store.read() == renewed


async def test_unanswered_write_of_another_candidate_is_not_taken_for_ours() -> None:
    bucket = Bucket()
    lossy = LossyStore(bucket)
    theirs = await ObjectLeaseStore(MemoryStore(bucket)).create(FIRST)
    with pytest.raises(LeaseConflict):
        await ObjectLeaseStore(lossy).create(FIRST)
    lossy.link.cut = True
    with pytest.raises(LeaseUnavailable):
        await ObjectLeaseStore(lossy).replace(FIRST, theirs.version)


async def test_unreachable_store_is_unavailable_not_a_conflict() -> None:
    store = ObjectLeaseStore(MemoryStore(Bucket(), Link(cut=True)))
    with pytest.raises(LeaseUnavailable, match="no route to host"):
        await store.read()
    with pytest.raises(LeaseUnavailable):
        await store.create(FIRST)
    with pytest.raises(LeaseUnavailable):
        await store.replace(FIRST, "1")


async def test_missing_bucket_is_unavailable_not_a_free_lease(moto_url: str) -> None:
    from kilonova.objectstore import S3Settings

    settings = S3Settings(bucket="missing", endpoint=moto_url, region="us-east-1")
    async with S3Store(settings) as objects:
        store = ObjectLeaseStore(objects)
        with pytest.raises(LeaseUnavailable, match="no such bucket"):
            await store.read()
        with pytest.raises(LeaseUnavailable, match="no such bucket"):
            await store.create(LeaseRecord("one"))


async def test_content_that_is_no_lease_is_reported() -> None:
    objects = MemoryStore(Bucket())
    await objects.put(KEY, b"{}")
    with pytest.raises(LeaseUnavailable, match=r"it is no lease: .*; stop all managers"):
        await ObjectLeaseStore(objects).read()

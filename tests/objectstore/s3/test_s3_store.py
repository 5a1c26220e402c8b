"""What is particular to S3: its errors, its retries, and where settings come from."""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator

import pytest

from kilonova.objectstore import (
    IF_ABSENT,
    AccessDenied,
    ChecksumMismatch,
    NotFound,
    S3Limits,
    S3Settings,
    S3Store,
    StoreNotUsable,
    Unavailable,
)
from tests.objectstore.conftest import Bucket
from tests.objectstore.s3.flaky_proxy import FlakyProxy

PART = 5 * 1024 * 1024


async def test_missing_bucket_is_named(s3_bucket: Bucket) -> None:
    async with S3Store(S3Settings(bucket="no-such", endpoint=s3_bucket.url, region="eu")) as store:
        with pytest.raises(NotFound, match="s3://no-such/a: there is no such bucket; create it"):
            await store.get("a")
        with pytest.raises(NotFound, match="no such bucket"):
            await store.put("a", b"", IF_ABSENT)


async def test_wrong_credentials_are_denied_and_not_shown(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    caplog.set_level(logging.INFO)
    async with S3Store(s3_bucket.settings()) as store:
        with pytest.raises(AccessDenied, match="check the credentials") as denied:
            await store.put("a", b"")
    assert "wrong-secret" not in str(denied.value) + repr(denied.value) + caplog.text


async def test_missing_credentials_are_explained(
    moto_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with S3Store(moto_bucket.settings()) as store:
        with pytest.raises(AccessDenied, match="no credentials were found; set AWS_ACCESS_KEY_ID"):
            await store.get("a")


async def test_server_that_does_not_run_is_unavailable(aws_environment: object) -> None:
    settings = S3Settings(bucket="some", endpoint="http://127.0.0.1:9", region="eu")
    async with S3Store(settings) as store:
        with pytest.raises(Unavailable, match="check the endpoint, and whether the server runs"):
            await store.put("a", b"", IF_ABSENT)


async def test_damaged_object_is_detected(s3_bucket: Bucket) -> None:
    assert s3_bucket.folder is not None
    async with S3Store(s3_bucket.settings()) as store:
        await store.put("a", b"what was written")
        (s3_bucket.folder / "a").write_bytes(b"what is  written")
        with pytest.raises(ChecksumMismatch, match="restore or write the object again"):
            await store.get("a")


async def test_failed_upload_leaves_no_parts(s3_bucket: Bucket) -> None:
    async def fail() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield bytes(PART)
        raise ValueError("the source is broken")

    async with S3Store(s3_bucket.settings(limits=S3Limits(part_bytes=PART))) as store:
        with pytest.raises(ValueError, match="broken"):
            await store.upload("weights.bin", fail())
    assert await count_uploads(s3_bucket) == 0


async def test_cancelled_upload_leaves_no_parts(s3_bucket: Bucket) -> None:
    reached = asyncio.Event()

    async def wait_forever() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield bytes(PART)
        reached.set()
        await asyncio.Event().wait()

    async with S3Store(s3_bucket.settings(limits=S3Limits(part_bytes=PART))) as store:
        upload = asyncio.create_task(store.upload("weights.bin", wait_forever()))
        await reached.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
    assert await count_uploads(s3_bucket) == 0


async def test_upload_cancelled_while_it_is_created_leaves_nothing(s3_bucket: Bucket) -> None:
    async def send_two_parts() -> AsyncGenerator[bytes]:
        yield bytes(2 * PART)

    async with (
        FlakyProxy(s3_bucket.url) as proxy,
        S3Store(proxy.rewrite(s3_bucket).settings(limits=S3Limits(part_bytes=PART))) as store,
    ):
        proxy.hold_requests = 1
        upload = asyncio.create_task(store.upload("weights.bin", send_two_parts()))
        await proxy.held.wait()
        upload.cancel()
        proxy.released.set()
        with pytest.raises(asyncio.CancelledError):
            await upload
    assert await count_uploads(s3_bucket) == 0


async def test_cancelled_upload_ends_after_the_parts_on_their_way(s3_bucket: Bucket) -> None:
    async with (
        FlakyProxy(s3_bucket.url) as proxy,
        S3Store(
            proxy.rewrite(s3_bucket).settings(limits=S3Limits(part_bytes=PART, concurrency=1))
        ) as store,
    ):

        async def hold_first_part() -> AsyncGenerator[bytes]:
            proxy.hold_requests = 1
            yield bytes(2 * PART)

        upload = asyncio.create_task(store.upload("weights.bin", hold_first_part()))
        await proxy.held.wait()
        upload.cancel()
        ended, _ = await asyncio.wait({upload}, timeout=0.2)
        assert not ended, "a part is on its way, and would arrive after the abort"
        proxy.released.set()
        with pytest.raises(asyncio.CancelledError):
            await upload
    assert await count_uploads(s3_bucket) == 0


async def test_conditional_write_whose_response_is_lost_is_not_repeated(
    moto_bucket: Bucket,
) -> None:
    async with (
        FlakyProxy(moto_bucket.url) as proxy,
        S3Store(proxy.rewrite(moto_bucket).settings()) as store,
    ):
        proxy.lose_responses = 1
        with pytest.raises(Unavailable):
            await store.put("lease", b"ours", IF_ABSENT)
        # It took effect: a second attempt would have reported a conflict with ourselves.
        assert (await store.get("lease")).body == b"ours"


async def test_other_requests_are_repeated(moto_bucket: Bucket) -> None:
    async with (
        FlakyProxy(moto_bucket.url) as proxy,
        S3Store(proxy.rewrite(moto_bucket).settings()) as store,
    ):
        proxy.lose_responses = 1
        await store.put("a", b"1")
        proxy.lose_responses = 1
        assert (await store.get("a")).body == b"1"


async def test_prefixes_separate_stores_in_a_bucket(moto_bucket: Bucket) -> None:
    async with (
        S3Store(moto_bucket.settings(prefix="team-a/")) as one,
        S3Store(moto_bucket.settings(prefix="team-b/")) as two,
    ):
        await one.put("x", b"1")
        assert [each.key async for each in one.list()] == ["x"]
        assert [each.key async for each in two.list()] == []
    async with S3Store(moto_bucket.settings()) as whole:
        assert [each.key async for each in whole.list()] == ["team-a/x"]


async def test_missing_boto3_is_explained(
    moto_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    async with S3Store(moto_bucket.settings()) as store:
        with pytest.raises(StoreNotUsable, match=r"pip install 'kilonova\[s3\]'"):
            await store.get("a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": ""}, "no bucket is given"),
        ({"bucket": "b", "endpoint": "s3.example.com"}, "use a URL such as https"),
        ({"bucket": "b", "endpoint": "http://me:secret@host"}, "endpoint contains credentials"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(StoreNotUsable, match=message):
        S3Settings(**options)  # type: ignore[arg-type]


def test_invalid_limits_are_rejected() -> None:
    with pytest.raises(StoreNotUsable, match="part_bytes is 1; use at least 5242880"):
        S3Limits(part_bytes=1)
    with pytest.raises(StoreNotUsable, match="concurrency is 0"):
        S3Limits(concurrency=0)


def test_path_style_is_for_other_servers_than_amazon() -> None:
    assert not S3Settings(bucket="b").uses_path_style
    assert S3Settings(bucket="b", endpoint="http://localhost:1").uses_path_style
    assert not S3Settings(
        bucket="b", endpoint="http://localhost:1", path_style=False
    ).uses_path_style


async def count_uploads(bucket: Bucket) -> int:
    import boto3

    def count() -> int:
        client = boto3.client("s3", endpoint_url=bucket.url, region_name="us-east-1")
        try:
            return len(client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", []))
        finally:
            client.close()

    return await asyncio.to_thread(count)

"""The endpoint of a flag, and of a file that changes while the process runs."""

import asyncio
from pathlib import Path

import pytest

from kilonova.fleet.store import EndpointSource
from kilonova.objectstore import StoreNotUsable


def mount(folder: Path, number: int, text: str) -> Path:
    """Write a file as a ConfigMap volume does: its folder is replaced as a whole."""
    version = folder / f"..{number}"
    version.mkdir()
    (version / "endpoint").write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(version.name)
    link.rename(folder / "..data")
    file = folder / "endpoint"
    if not file.is_symlink():
        file.symlink_to("..data/endpoint")
    return file


async def test_endpoint_of_a_flag_does_not_change() -> None:
    source = EndpointSource("/var/fleet", poll_seconds=0.01)
    assert source.read() == "/var/fleet"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(source.wait_for_change("/var/fleet"), 0.05)


async def test_mounted_file_is_read_again(tmp_path: Path) -> None:
    file = mount(tmp_path, 1, "/var/fleet\n")
    source = EndpointSource(f"@{file}", poll_seconds=0.01)
    assert source.read() == "/var/fleet"
    waiting = asyncio.create_task(source.wait_for_change("/var/fleet"))
    mount(tmp_path, 2, "/var/other\n")
    assert await asyncio.wait_for(waiting, 60) == "/var/other"
    assert source.read() == "/var/other"


async def test_invalid_content_leaves_the_last_endpoint_in_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = mount(tmp_path, 1, "/var/fleet")
    source = EndpointSource(f"@{file}", poll_seconds=0.01)
    assert source.read() == "/var/fleet"
    mount(tmp_path, 2, "ftp://fleet")
    assert [source.read(), source.read()] == ["/var/fleet"] * 2
    file.unlink()
    assert source.read() == "/var/fleet"
    mount(tmp_path, 3, "/var/other")
    assert source.read() == "/var/other"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "the file cannot be read: no such file or directory; mount the ConfigMap"),
        (b"\xff", "the file is no text; write one line"),
        (b"\n", "an endpoint is empty"),
    ],
)
def test_unusable_file_is_refused_at_the_start(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "endpoint"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StoreNotUsable) as error:
        EndpointSource(f"@{file}").read()
    assert problem in str(error.value)

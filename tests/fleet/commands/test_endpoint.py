"""`kilonova fleet endpoint`: who leads where, and taking a store back into use."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kilonova.component.failure import CommandFailed
from kilonova.fleet.commands.endpoint import app
from kilonova.fleet.documents import FLEET, FleetRecord
from kilonova.fleet.store import open_fleet_store
from kilonova.fleet.store.epochs import build_epoch


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def replaced_store(tmp_path: Path) -> str:
    async def write() -> None:
        record = FleetRecord(epoch=build_epoch(2, 5), moved_to="s3://other")
        await open_fleet_store(str(tmp_path)).write(FLEET, record, None)

    asyncio.run(write())
    return str(tmp_path)


def test_store_is_shown(replaced_store: str) -> None:
    shown = invoke("show", replaced_store).stdout
    assert shown == (
        f"store:    {replaced_store}\n"
        "leader:   none (renewed never)\n"
        "epoch:    2.5\n"
        "members:  none\n"
        "replaced by s3://other\n"
    )


def test_replaced_store_is_reclaimed_and_keeps_its_epoch(replaced_store: str) -> None:
    for _ in range(2):
        assert invoke("reclaim", replaced_store).exit_code == 0
    shown = invoke("show", replaced_store).stdout
    assert "epoch:    2.5\n" in shown
    assert "replaced by" not in shown


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a", "ftp:// is not supported; use s3://BUCKET/PREFIX"),
        ("./none", "has never had a leader"),
    ],
)
def test_reclaim_that_is_not_possible_is_explained(
    url: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failure = invoke("reclaim", url).exception
    assert isinstance(failure, CommandFailed)
    assert message in str(failure)

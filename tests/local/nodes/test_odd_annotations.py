"""Annotations of simulated nodes and times that say nonsense."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api.times import parse_time
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.faults import LOST_GPUS, OUT, PULL_ERRORS, XID, faults_of
from kilonova.local.nodes.fleet import NodeGroup
from tests.local.embedded_cluster import BEGIN, PODS, eventually, pod, running

ODD = st.text("0123456789@,-:TZ+ true\u0663\u00b2", max_size=40)


@given(ODD, ODD)
@example("9" * 5000, "9" * 5000 + "@1")
@example("1@0001-01-01T00:00:00+14:00", "1@" + "9" * 5000)
@example("0001-01-01T00:00:00+14:00", "")
def test_what_cannot_be_read_is_no_fault(first: str, second: str) -> None:
    for name in (OUT, PULL_ERRORS, LOST_GPUS, XID):
        for text in (first, second):
            found = faults_of({name: text}, BEGIN)
            assert found.next_end is None or found.next_end > BEGIN


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_beyond_the_calendar_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="beyond the calendar"):
        parse_time(text)


@pytest.mark.looptime
@pytest.mark.parametrize("code", ["9" * 5000, "\u0663", "-1", "", "99999999999"])
async def test_an_odd_exit_code_stops_no_other_pod(code: str) -> None:
    prefix = "sim.kilonova.dev/"
    odd = {"annotations": {f"{prefix}run-seconds": "1", f"{prefix}exit-code": code}}
    plain = {"annotations": {f"{prefix}run-seconds": "30"}}
    async with running(fleet=Fleet(nodes=(NodeGroup("n"),))) as cluster:
        client = cluster.client("test")
        for name, metadata in (("odd", odd), ("plain", plain)):
            body = pod(name, metadata=metadata, restartPolicy="Never")
            await client.create(PODS, body, "default")

        async def have_ended() -> bool:
            found = [await client.get(PODS, name, "default") for name in ("odd", "plain")]
            return [each["status"].get("phase") for each in found] in (
                ["Failed", "Succeeded"],
                ["Succeeded", "Succeeded"],
            )

        await eventually(have_ended, within=600, every=1)

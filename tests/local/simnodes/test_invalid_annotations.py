"""Invalid annotations and times of simulated nodes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api.nodes.simulated_faults import (
    LOST_GPUS_ANNOTATION,
    OUT_ANNOTATION,
    PULL_ERRORS_ANNOTATION,
    XID_ANNOTATION,
    parse_faults,
)
from kilonova.api.times import parse_time
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.local.embedded_cluster import PODS, START_TIME, pod, run_cluster, wait_for_condition

ODD = st.text("0123456789@,-:TZ+ true\u0663\u00b2", max_size=40)


@given(ODD, ODD)
@example("9" * 5000, "9" * 5000 + "@1")
@example("1@0001-01-01T00:00:00+14:00", "1@" + "9" * 5000)
@example("0001-01-01T00:00:00+14:00", "")
def test_invalid_annotations_are_ignored(first: str, second: str) -> None:
    for name in (OUT_ANNOTATION, PULL_ERRORS_ANNOTATION, LOST_GPUS_ANNOTATION, XID_ANNOTATION):
        for text in (first, second):
            found = parse_faults({name: text}, START_TIME)
            assert found.next_end is None or found.next_end > START_TIME


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_time_out_of_range_is_invalid(text: str) -> None:
    with pytest.raises(ValueError, match="is out of range"):
        parse_time(text)


@pytest.mark.looptime
@pytest.mark.parametrize("code", ["9" * 5000, "\u0663", "-1", "", "99999999999"])
async def test_invalid_exit_code_does_not_affect_other_pods(code: str) -> None:
    prefix = "sim.kilonova.dev/"
    odd = {"annotations": {f"{prefix}run-seconds": "1", f"{prefix}exit-code": code}}
    plain = {"annotations": {f"{prefix}run-seconds": "30"}}
    async with run_cluster(fleet=Fleet(nodes=(NodeGroup("n"),))) as cluster:
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

        await wait_for_condition(have_ended, within=600, every=1)

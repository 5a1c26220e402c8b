"""No device is assigned to two pods, whatever is bound, rejected and deleted in whatever order, and
however often the extender is restarted."""

import asyncio
import json
from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.gpu.annotations import parse_devices
from kilonova.catalog.mig import geometry_named
from tests.harness.campaigns import limit_examples
from tests.scheduler.extender.extender_fixture import ExtenderScenario, node, pod

_MIG_TOPOLOGY = json.dumps({"gpus": [{"mig": "H100-80GB"}, {"mig": "H100-80GB"}, {}, {}]})
_NODES = [
    node("plain", 4),
    node("split", 4, annotations={"gpu.kilonova.dev/topology": _MIG_TOPOLOGY}),
]
_MIG = "nvidia.com/mig-"

_requests = st.one_of(
    st.integers(1, 3).map(lambda gpus: {"gpus": gpus}),
    st.sampled_from(["200", "500", "700"]).map(
        lambda milli: {"gpus": 0, "annotations": {"gpu.kilonova.dev/milli": milli}}
    ),
    st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "1g.10gb.me"]).map(
        lambda profile: {"gpus": 1, "resource": _MIG + profile}
    ),
)
_steps = st.one_of(
    st.tuples(st.just("bind"), _requests, st.sampled_from(["plain", "split"]), st.booleans()),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("restart")),
)


@settings(max_examples=limit_examples(60))
@given(st.lists(_steps, max_size=40))
def test_no_device_is_assigned_twice(steps: list[Any]) -> None:
    asyncio.run(_run_steps(steps))


async def _run_steps(steps: list[Any]) -> None:
    scenario, bound_pods = ExtenderScenario(*_NODES), dict[str, dict[str, Any]]()
    for number, step in enumerate(steps):
        match step:
            case ("bind", options, on_node, is_rejected):
                name = f"p{number}"
                scenario.add_pods(pod(name, **options))
                scenario.server.failures = [403] if is_rejected else []
                error = await scenario.bind(name, on_node)
                given = scenario.server.devices().get(name)
                assert (error == "") == (given is not None)
                if given is not None:
                    devices = given.partition(":")[2]
                    bound_pods[name] = pod(name, node=on_node, devices=devices, **options)
                    if number % 2:
                        scenario.add_pods(bound_pods[name])
            case ("delete", which) if which < len(bound_pods):
                name = list(bound_pods)[which]
                del bound_pods[name]
                scenario.pods.remove(("default", name))
            case ("restart",):
                scenario = ExtenderScenario(*_NODES)
                scenario.add_pods(*bound_pods.values())
            case _:
                continue
        _assert_exclusive(bound_pods)


def _assert_exclusive(bound_pods: dict[str, dict[str, Any]]) -> None:
    geometry = geometry_named("H100-80GB")
    assert geometry is not None
    milli: defaultdict[tuple[str, int], int] = defaultdict(int)
    masks: defaultdict[tuple[str, int], int] = defaultdict(int)
    for each in bound_pods.values():
        place = each["spec"]["nodeName"]
        assignments = parse_devices(each["metadata"]["annotations"]["gpu.kilonova.dev/devices"])
        assert isinstance(assignments, tuple)
        for one in assignments:
            device = place, one.index
            if one.profile:
                profile = geometry.profile(one.profile)
                assert profile is not None
                mask = profile.mask_at(one.start)
                assert not masks[device] & mask, f"{device}: two instances in one place"
                masks[device] |= mask
            else:
                milli[device] += one.milli
                assert milli[device] <= 1000, f"{device} is given twice"
    assert not milli.keys() & masks.keys(), "a device is both split and given whole"

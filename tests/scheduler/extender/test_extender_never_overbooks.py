"""Whatever is bound, refused and deleted in whatever order, and however often the extender is
started anew: no device is given to two."""

import asyncio
import json
from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.gpus import read_devices
from kilonova.scheduler.core.mig_parts import known_geometry
from tests.scheduler.extender.scene import Scene, node, pod

_SPLIT = json.dumps({"gpus": [{"mig": "H100-80GB"}, {"mig": "H100-80GB"}, {}, {}]})
_NODES = [node("plain", 4), node("split", 4, annotations={"gpu.kilonova.dev/topology": _SPLIT})]
_MIG = "nvidia.com/mig-"

_asks = st.one_of(
    st.integers(1, 3).map(lambda gpus: {"gpus": gpus}),
    st.sampled_from(["200", "500", "700"]).map(
        lambda milli: {"gpus": 0, "annotations": {"gpu.kilonova.dev/milli": milli}}
    ),
    st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "1g.10gb.me"]).map(
        lambda profile: {"gpus": 1, "resource": _MIG + profile}
    ),
)
_steps = st.one_of(
    st.tuples(st.just("bind"), _asks, st.sampled_from(["plain", "split"]), st.booleans()),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("restart")),
)


@settings(max_examples=60)
@given(st.lists(_steps, max_size=40))
def test_no_device_is_given_to_two(steps: list[Any]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[Any]) -> None:
    scene, standing = Scene(*_NODES), dict[str, dict[str, Any]]()
    for number, step in enumerate(steps):
        match step:
            case ("bind", ask, there, refused):
                name = f"p{number}"
                scene.show(pod(name, **ask))
                scene.server.failures = [403] if refused else []
                error = await scene.bind(name, there)
                given = scene.server.devices().get(name)
                assert (error == "") == (given is not None)
                if given is not None:
                    devices = given.partition(":")[2]
                    standing[name] = pod(name, node=there, devices=devices, **ask)
                    if number % 2:
                        scene.show(standing[name])
            case ("delete", which) if which < len(standing):
                name = list(standing)[which]
                del standing[name]
                scene.pods.remove(("default", name))
            case ("restart",):
                scene = Scene(*_NODES)
                scene.show(*standing.values())
            case _:
                continue
        _check(standing)


def _check(standing: dict[str, dict[str, Any]]) -> None:
    geometry = known_geometry("H100-80GB")
    assert geometry is not None
    milli: defaultdict[tuple[str, int], int] = defaultdict(int)
    masks: defaultdict[tuple[str, int], int] = defaultdict(int)
    for each in standing.values():
        place = each["spec"]["nodeName"]
        assignments = read_devices(each["metadata"]["annotations"]["gpu.kilonova.dev/devices"])
        assert isinstance(assignments, tuple)
        for one in assignments:
            device = place, one.index
            if one.profile:
                profile = geometry.profile(one.profile)
                assert profile is not None
                mask = profile.mask(one.start)
                assert not masks[device] & mask, f"{device}: two instances in one place"
                masks[device] |= mask
            else:
                milli[device] += one.milli
                assert milli[device] <= 1000, f"{device} is given twice"
    assert not milli.keys() & masks.keys(), "a device is both split and given whole"

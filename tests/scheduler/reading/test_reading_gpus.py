"""From annotations and labels to layouts and shares, and back."""

import pytest

from kilonova.api.gpus import DEVICES, TOPOLOGY, Unreadable
from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.choosing import choose
from kilonova.scheduler.core.devices import Gpu, Layout, Share
from kilonova.scheduler.core.mig_parts import known_geometry
from kilonova.scheduler.reading.gpus import devices_text, layout_of, shares_of

H100 = known_geometry("H100-80GB")
SPLIT = Layout((Gpu(0), Gpu(1, mig=H100)))


def read(text: str) -> Layout | Unreadable:
    return layout_of({TOPOLOGY: text}, {}, 8)


def test_devices_say_what_differs_and_the_node_the_rest() -> None:
    text = (
        '{"product":"NVIDIA-H100-80GB-HBM3","memory":81559,"architecture":"Hopper","port":900,'
        '"mig":"H100-80GB","gpus":[{"uuid":"GPU-a","numa":0,"pcie":"15"},'
        '{"numa":1,"mig":"","memory":1,"port":0,"healthy":false}]}'
    )
    layout = read(text)
    assert isinstance(layout, Layout)
    product = "NVIDIA-H100-80GB-HBM3"
    assert layout.gpus == (
        Gpu(0, 81559, product, "Hopper", 0, "15", 900, H100),
        Gpu(1, 1, product, "Hopper", 1, healthy=False),
    )
    assert layout.gpus[0].uuid == "GPU-a"


def test_links_are_read_in_either_direction() -> None:
    layout = read('{"gpus":[{},{},{}],"links":[[1,0,50],[0,1,50],[1,2,25]]}')
    assert isinstance(layout, Layout)
    assert layout.links == ((0, 1, 50), (1, 2, 25))


def test_a_geometry_as_the_device_tells_it_goes_before_ours() -> None:
    layout = read(
        '{"gpus":[{}],"mig":"H100-80GB","geometries":{"H100-80GB":'
        '[{"name":"1g.1gb","compute":1,"slices":1,"starts":[0,1],"limit":2}]}}'
    )
    assert isinstance(layout, Layout)
    assert layout.has_profile("1g.1gb")
    assert not layout.has_profile("1g.10gb")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"gpus":[{}],"mig":"H900"}', "device 0: MIG geometry 'H900'"),
        ('{"gpus":[{}],"links":[[0,1,5]]}', "link 0-1"),
        ('{"gpus":[{},{}],"links":[[1,1,5]]}', "link 1-1"),
        ('{"gpus":[{},{}],"links":[[0,1,0]]}', "0 GB/s"),
        (
            '{"gpus":[],"geometries":{"x":[{"name":"9g","slices":9,"starts":[0],"limit":1}]}}',
            "profile 9g reaches past",
        ),
        ("{", "truncated"),
    ],
)
def test_what_contradicts_itself_is_named(text: str, complaint: str) -> None:
    answer = read(text)
    assert isinstance(answer, Unreadable)
    assert complaint in answer.problem


def test_labels_of_feature_discovery_say_at_least_the_model() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/gpu.family": "ampere",
    }
    gpu = Gpu(0, 40960, "NVIDIA-A100-SXM4-40GB", "ampere")
    assert layout_of({}, labels, 1) == Layout((gpu,))
    for text in ("much", "-1", "9" * 60):
        assert layout_of({}, {"nvidia.com/gpu.memory": text}, 2) == Layout.of_unknown(2)


@pytest.mark.parametrize(
    "text", ["0", "0,1", "0:300", "0:250,1:1g.10gb@4", "1:1g.10gb+me@6", "1:1g.10gb@0,1:1g.10gb@1"]
)
def test_what_a_pod_is_given_reads_back(text: str) -> None:
    shares = shares_of(text, SPLIT)
    assert not isinstance(shares, Unreadable)
    assert devices_text(shares) == text


def test_an_instance_knows_what_it_occupies() -> None:
    assert shares_of("1:2g.20gb@4", SPLIT) == (Share(1, 0, "2g.20gb", 4, 0b110000),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2", "2: the node has 2 devices"),
        ("0:1g.10gb@0", "no such MIG profile"),
        ("1:1g.5gb@0", "no such MIG profile"),
        ("1:2g.20gb@1", "2g.20gb starts at 0, 2, 4"),
        ("0,1,0", "0: the pod has that of the device already"),
        ("1:500,1:1g.10gb@0", "1:1g.10gb@0: the pod has"),
        ("1:2g.20gb@4,1:1g.10gb@5", "1:1g.10gb@5: the pod has"),
        ("x", "'x'"),
    ],
)
def test_what_a_node_cannot_have_given_is_named(text: str, complaint: str) -> None:
    answer = shares_of(text, SPLIT)
    assert isinstance(answer, Unreadable)
    assert answer.annotation == DEVICES
    assert complaint in answer.problem


def test_what_is_chosen_is_what_is_read_again() -> None:
    ask = GpuAsk(2, profile="1g.10gb")
    choice = choose(SPLIT, [1000, 1000], [0, 0], ask)
    assert choice is not None
    assert shares_of(devices_text(choice.shares), SPLIT) == choice.shares

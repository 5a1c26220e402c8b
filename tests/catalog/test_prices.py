"""What machine types, GPUs, MIG instances and nodes cost."""

import pytest

from kilonova.catalog import Catalog, NodePrice, PricedNode, load_catalog
from kilonova.catalog.mig import geometry_named
from kilonova.catalog.overrides import Overrides
from kilonova.catalog.prices import Market, Price, PriceList, parse_market, parse_price

CATALOG = Catalog()


@pytest.mark.parametrize(
    ("product", "price"),
    [
        ("NVIDIA-H100-80GB-HBM3", 6.88),
        ("NVIDIA-H200", 7.912),
        ("NVIDIA-A100-SXM4-80GB", 3.4309),
        ("NVIDIA-A100-SXM4-40GB", 2.7447),
        ("NVIDIA-A100-80GB-PCIe", 3.673),
        ("NVIDIA-L4", 0.8048),
        ("NVIDIA-L40S", 1.861),
        ("Tesla-T4", 0.526),
        ("NVIDIA-A10G", 1.006),
        ("NVIDIA-B200", 14.2416),
        ("NVIDIA-GB200", 10.5),
        ("Tesla-V100-SXM2-32GB", 3.9015),
        ("Tesla-V100-SXM2-16GB", 3.06),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 3.363),
        ("NVIDIA-A30", None),
    ],
)
def test_price_of_a_gpu(product: str, price: float | None) -> None:
    model = CATALOG.find_gpu(product)
    assert model is not None
    assert CATALOG.gpu_price(model.name) == price


@pytest.mark.parametrize(
    ("machine", "market", "price"),
    [
        ("p5.48xlarge", "on-demand", 55.04),
        ("p5.48xlarge", "spot", 20.28),
        ("gb200-4x", "on-demand", 42.0),
        ("gb200-4x", "spot", None),
        ("m7i.4xlarge", "on-demand", 0.8064),
        ("unheard-of", "on-demand", None),
    ],
)
def test_price_of_a_machine_type(machine: str, market: Market, price: float | None) -> None:
    assert CATALOG.machine_price(machine, market) == price


def test_a_mig_instance_costs_its_share_of_the_gpu() -> None:
    assert CATALOG.slice_price("H200", "1g.18gb") == pytest.approx(7.912 / 8)
    assert CATALOG.slice_price("H200", "7g.141gb", "spot") == CATALOG.gpu_price("H200", "spot")
    assert CATALOG.slice_price("H200", "1g.5gb") is None
    assert CATALOG.slice_price("L4", "1g.5gb") is None
    assert CATALOG.slice_price("A30", "1g.6gb") is None


@pytest.mark.parametrize("product", [model.name for model in CATALOG.gpus if model.mig])
def test_no_set_of_instances_costs_less_than_its_gpu_shares(product: str) -> None:
    """Instances of one profile, as many as fit, cost at most the GPU plus what they strand."""
    model = CATALOG.find_gpu(product)
    assert model is not None
    geometry = geometry_named(model.mig)
    assert geometry is not None
    for profile in geometry.profiles:
        share = geometry.device_share(profile.name)
        assert share is not None
        assert 0 < share * profile.limit <= 1.0001


@pytest.mark.parametrize(
    ("node", "price"),
    [
        pytest.param(
            PricedNode("p5.48xlarge", "on-demand", "H100-SXM5-80GB", 8),
            NodePrice(55.04, 6.88),
            id="machine type",
        ),
        pytest.param(
            PricedNode("p5.48xlarge", "spot", "H100-SXM5-80GB", 8),
            NodePrice(20.28, 2.535),
            id="spot",
        ),
        pytest.param(
            PricedNode("on-premises", gpu="GB200", gpus=4), NodePrice(42.0, 10.5), id="GPU model"
        ),
        pytest.param(PricedNode("m7i.large"), NodePrice(0.1008, None), id="without GPUs"),
        pytest.param(PricedNode(gpu="A30", gpus=2), NodePrice(), id="unknown"),
        pytest.param(PricedNode(), NodePrice(), id="nothing known"),
        pytest.param(
            PricedNode("p5.48xlarge", gpu="H100-SXM5-80GB", gpus=8, stated_gpu=2.0),
            NodePrice(16.0, 2.0),
            id="stated GPU price",
        ),
        pytest.param(
            PricedNode("p5.48xlarge", gpu="H100-SXM5-80GB", gpus=8, stated_node=20.0),
            NodePrice(20.0, 2.5),
            id="stated node price",
        ),
        pytest.param(
            PricedNode(gpu="H100-SXM5-80GB", gpus=8, stated_node=20.0, stated_gpu=2.0),
            NodePrice(20.0, 2.0),
            id="both stated",
        ),
        pytest.param(PricedNode(stated_node=0.0), NodePrice(0.0), id="free of charge"),
    ],
)
def test_price_of_a_node(node: PricedNode, price: NodePrice) -> None:
    assert CATALOG.price_node(node) == price


def test_an_overridden_gpu_price_precedes_the_machine_price_of_the_catalog() -> None:
    own = Catalog(Overrides(prices=PriceList(gpus={"H100-SXM5-80GB": Price(on_demand=2.0)})))
    node = PricedNode("p5.48xlarge", gpu="H100-SXM5-80GB", gpus=8)
    assert own.price_node(node) == NodePrice(16.0, 2.0)
    assert own.gpu_price("H100-SXM5-80GB", "spot") == 2.63
    assert own.slice_price("H100-SXM5-80GB", "3g.40gb") == 1.0


def test_a_listed_slice_price_precedes_the_share() -> None:
    slices = {"H100-SXM5-80GB": {"1g.10gb": Price(on_demand=0.5)}}
    own = Catalog(Overrides(prices=PriceList(slices=slices)))
    assert own.slice_price("H100-SXM5-80GB", "1g.10gb") == 0.5
    assert own.slice_price("H100-SXM5-80GB", "2g.20gb") == pytest.approx(6.88 / 4)


@pytest.mark.parametrize("text", ["1e308", "inf", "nan", "-1", "10000.01", "cheap", ""])
def test_an_invalid_price_counts_as_none(text: str) -> None:
    assert parse_price(text) is None


def test_markets_are_read_from_labels_of_karpenter() -> None:
    assert [parse_market(text) for text in ("spot", "on-demand", "")] == [
        "spot",
        "on-demand",
        "on-demand",
    ]


def test_every_price_names_a_machine_type_or_gpu_model_of_the_catalog() -> None:
    models = {model.name for model in CATALOG.gpus}
    for prices in CATALOG.price_lists:
        assert prices.date
        assert prices.source
        assert set(prices.machines) <= set(CATALOG.machines)
        assert set(prices.gpus) <= models
        assert set(prices.slices) <= models


def test_every_machine_type_names_a_gpu_model_of_the_catalog() -> None:
    models = {model.name for model in CATALOG.gpus}
    assert {machine.gpu for machine in CATALOG.machines.values() if machine.gpu} <= models
    assert all(bool(machine.gpu) == bool(machine.gpus) for machine in CATALOG.machines.values())


def test_every_model_is_found_by_its_names_and_its_geometry_exists() -> None:
    for model in CATALOG.gpus:
        for name in (model.name, *model.products, *model.aliases):
            assert CATALOG.find_gpu(name) == model, name
            assert CATALOG.find_gpu(f"{name}-SHARED", model.memory) == model, name
        assert not model.mig or geometry_named(model.mig) is not None


def test_the_catalog_is_loaded_once() -> None:
    assert load_catalog() is load_catalog()

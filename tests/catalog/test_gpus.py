"""GPU models are found by product name and memory."""

import pytest

from kilonova.catalog import load_catalog


@pytest.mark.parametrize(
    ("product", "memory", "mig"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40960, "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB", 81920, "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB", 0, "A100-80GB"),
        ("NVIDIA-A100-80GB-PCIe", 0, "A100-80GB"),
        ("NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 0, "A100-40GB"),
        ("NVIDIA-A800-SXM4-80GB", 81251, "A100-80GB"),
        ("NVIDIA-H100-80GB-HBM3", 81559, "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", 0, "H100-80GB"),
        ("NVIDIA-H100-PCIe", 0, "H100-80GB"),
        ("NVIDIA-H100-NVL", 0, "H100-94GB"),
        ("NVIDIA-H100-NVL", 95830, "H100-94GB"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", 0, "H100-80GB"),
        ("NVIDIA-H20", 97871, "H100-96GB"),
        ("NVIDIA-H200", 143771, "H200-141GB"),
        ("NVIDIA-H200-NVL", 0, "H200-141GB"),
        ("NVIDIA-GH200-480GB", 97871, "H100-96GB"),
        ("NVIDIA-GH200-480GB", 0, "H100-96GB"),
        ("NVIDIA-GH200-144G-HBM3e", 0, "GH200-144GB"),
        ("NVIDIA-B200", 183359, "B200-180GB"),
        ("NVIDIA-GB200", 189471, "GB200-186GB"),
        ("NVIDIA-B300-SXM6-AC", 275040, "B300-269GB"),
        ("NVIDIA-GB300", 284208, "GB300-278GB"),
        ("NVIDIA-A30", 24576, "A30-24GB"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, "RTX-PRO-6000-96GB"),
        ("NVIDIA RTX PRO 4500 Blackwell", 32623, "RTX-PRO-4500-32GB"),
        ("Tesla-V100-SXM2-16GB", 16384, None),
        ("NVIDIA-L40S", 46068, None),
        ("NVIDIA-RTX-6000-Ada-Generation", 49140, None),
        ("", 0, None),
    ],
)
def test_mig_geometry_is_found_by_product_name(product: str, memory: int, mig: str | None) -> None:
    model = load_catalog().find_gpu(product, memory)
    assert (model.mig if model else "") == (mig or "")


def test_the_h200_is_as_its_driver_reports_it() -> None:
    """150,754,820,096 bytes, 16,896 cores of which a multiprocessor has 128, compute 9.0."""
    model = load_catalog().find_gpu("NVIDIA H200")
    assert model is not None
    assert model.memory == 150_754_820_096 >> 20
    assert model.sms == 16_896 // 128
    assert model.capability == (9, 0)

"""What a GPU costs per hour.

List prices of AWS, on demand, in us-east-1, in August 2026: the price of the smallest instance with
that GPU, divided by how many it has (g4dn.xlarge, g5.xlarge, g6.xlarge, g6e.xlarge, g7e.2xlarge,
p3dn.24xlarge, p4d.24xlarge, p4de.24xlarge, p5.4xlarge, p5en.48xlarge, p6-b200.48xlarge,
p6-b300.48xlarge). They give an idea of what a fleet is worth; who pays another price says so on
the node, by the label or annotation `kilonova.dev/gpu-hourly-price`.
"""

import re
from functools import lru_cache

_USD = {
    "T4": 0.53,
    "A10G": 1.01,
    "L4": 0.80,
    "L40S": 1.86,
    "V100": 3.90,
    "H100": 6.88,
    "H200": 7.91,
    "B200": 14.24,
    "B300": 17.80,
}
_A100 = {"40GB": 2.74, "80GB": 3.43}
_RTX_PRO_6000 = 3.36
_DEAREST = 10_000.0
"""More is a slip, and would drown every sum that it is part of."""


@lru_cache(maxsize=256)
def list_price(product: str) -> float | None:
    """USD per hour of one GPU, by `nvidia.com/gpu.product`; None if it is not known."""
    words = re.split(r"[-_ ]", product.upper())
    if "A100" in words:
        return next((_A100[word] for word in words if word in _A100), None)
    if "RTX-PRO-6000" in "-".join(words):
        return _RTX_PRO_6000
    return next((_USD[word] for word in words if word in _USD), None)


def stated_price(text: str) -> float | None:
    """The price that a label or an annotation states; None if it states none that can be."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if 0 <= price <= _DEAREST else None

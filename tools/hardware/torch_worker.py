"""A PyTorch process that multiplies matrices until it is stopped: `torch_worker.py [MIB]`.

Prints what it sees of its device as JSON, whether it may allocate MIB if that is given, and then
the number of its products once a second. CUDA_VISIBLE_DEVICES selects the device or MIG instance.
"""

import importlib
import json
import sys
import time
from typing import Any

torch: Any = importlib.import_module("torch")
"""Not a dependency: the machine has it."""


def main(mebibytes: int) -> None:
    """Compute until terminated."""
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    refused = False
    if mebibytes:
        try:
            torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            refused = True
    torch.cuda.empty_cache()
    seen = {
        "name": properties.name,
        "sms": properties.multi_processor_count,
        "total_mib": total >> 20,
        "free_mib": free >> 20,
        "refused": refused,
    }
    print(json.dumps(seen), flush=True)
    matrix = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    products = 0
    while True:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for _ in range(20):
                torch.matmul(matrix, matrix)
            torch.cuda.synchronize()
            products += 20
        print(products, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

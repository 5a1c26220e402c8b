"""The programs for hardware run from two unpacked wheels: nothing else may be imported."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import tools.hardware.gpu_discovery
from kilonova.gpu.devices.nvml import NvmlBackend
from kilonova.gpu.devices.errors import GpuError
try:
    NvmlBackend().read_inventory()
except GpuError:
    pass
known = {"kilonova", "tools", "msgspec", "pynvml", "__main__"} | sys.stdlib_module_names
known.add("typing_extensions")  # by msgspec, where it is installed
found = {name.partition(".")[0] for name in sys.modules}
print(sorted(name for name in found - known if not name.startswith(("_", "sitecustomize"))))
"""


def test_discovery_needs_msgspec_and_nvml_alone() -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"

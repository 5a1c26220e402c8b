"""The shim loads nothing of Kilonova but its own packages."""

import json
import subprocess
import sys
from pathlib import Path

import kilonova

PACKAGE = "kilonova.local.processnode"
PARENTS = {"kilonova", "kilonova.local", PACKAGE}
OWN_PACKAGES = tuple(f"{PACKAGE}.{name}" for name in ("shim", "network", "cri"))

# As `shim/__main__.py` does it: without site-packages, which hold much more than the shim needs.
LIST_MODULES = f"""
import json, sys
sys.path.append(sys.argv[1])
sys.modules["ssl"] = None
import {PACKAGE}.shim.daemon
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "kilonova"]))
"""


def test_shim_imports_only_its_own_packages() -> None:
    parent = Path(kilonova.__file__).parents[1]
    command = [sys.executable, "-I", "-S", "-c", LIST_MODULES, str(parent)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout)) - PARENTS
    assert f"{PACKAGE}.shim.daemon" in loaded
    assert not [name for name in loaded if not name.startswith(OWN_PACKAGES)]

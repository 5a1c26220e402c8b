"""The commands of the package, as pip installs them."""

import sys
import tomllib
from pathlib import Path

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def write_console_scripts(folder: Path) -> Path:
    """Write all of them to a new folder, for a PATH; returns it."""
    folder.mkdir()
    scripts = tomllib.loads(_PROJECT.read_text())["project"]["scripts"]
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        program = folder / name
        program.write_text(
            f"#!{sys.executable} -P\nfrom {module} import {function}\n{function}()\n"
        )
        program.chmod(0o755)
    return folder

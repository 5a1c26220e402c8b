"""`python -m tools.image`: write Kilonova's image into an OCI archive.

The last line on standard output is the path of the archive.
"""

import argparse
import sys
from pathlib import Path

from tools.image.archive import write_archive
from tools.image.contents import ROOT
from tools.image.kilonova_image import NAME, VERSION, build_kilonova_image


def main() -> None:
    """Build the image and write the archive."""
    options = _parse_arguments()
    if sys.platform != "linux":
        sys.exit("make image: the image contains the Python of this machine, which must be Linux")
    image = build_kilonova_image()
    path: Path = options.output
    path.parent.mkdir(parents=True, exist_ok=True)
    write_archive(image, options.name, path)
    print(f"{options.name}  {image.digest}  {path.stat().st_size / 1e6:.0f} MB")
    print(path)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    output = ROOT / "dist" / f"kilonova-{VERSION}.tar"
    parser.add_argument("--output", type=Path, default=output, help="the archive to write")
    parser.add_argument("--name", default=NAME, help=f"the name of the image (default {NAME})")
    return parser.parse_args()


if __name__ == "__main__":
    main()

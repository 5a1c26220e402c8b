"""`python -m tools.docs`: build the documentation into `site/`, or say what is wrong with it."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tools.docs.map import PageOffTheMap, menu
from tools.docs.outside import fetched_from_outside
from tools.docs.pages import BrokenLink, gather
from tools.tables import ROOT


def main() -> None:
    """Gather, render strictly, check; ends with 1 and words where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder of the site")
    out: Path = parser.parse_args().out
    try:
        build(ROOT, out.resolve())
    except (BrokenLink, PageOffTheMap) as error:
        sys.exit(str(error))
    if outside := list(fetched_from_outside(out)):
        sys.exit("\n".join(["The site must fetch nothing from elsewhere, but does:", *outside]))
    print(f"Open {out / 'index.html'}")
    # Browsers let no page of a local file start what the search runs in.
    print(f"To search in it, serve it: python3 -m http.server --bind 127.0.0.1 -d {out}")


def build(root: Path, out: Path) -> None:
    """Render the site; any warning stops it, as of an anchor that is not there."""
    site = gather(root)
    with tempfile.TemporaryDirectory(prefix="kilonova-docs-") as scratch:
        gathered = Path(scratch)
        site.write(gathered / "pages")
        settings = {
            "INHERIT": str(root / "mkdocs.yml"),
            "docs_dir": "pages",
            "site_dir": "site",
            "nav": menu(site.pages),
        }
        (gathered / "mkdocs.yml").write_text(
            yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        )
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=gathered, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(gathered / "site", out)


if __name__ == "__main__":
    main()

"""`python -m tools.docs`: build the documentation into `site/`, or report what is wrong with it."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from kilonova.component import find_components
from tools.docs.component_pages import UnknownSection
from tools.docs.external_requests import find_external_requests
from tools.docs.menu import PageNotInMenu, build_menu
from tools.docs.pages import BrokenLink, collect_pages
from tools.tables import ROOT


def main() -> None:
    """Collect, render strictly, check; exits with 1 and a message on errors."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="output directory")
    out: Path = parser.parse_args().out
    try:
        build_site(ROOT, out.resolve())
    except (BrokenLink, PageNotInMenu, UnknownSection) as error:
        sys.exit(str(error))
    if external := list(find_external_requests(out)):
        sys.exit(
            "\n".join(["The site must not load anything from other servers, but does:", *external])
        )
    print(f"Open {out / 'index.html'}")
    # Browsers do not allow the search worker on file:// pages.
    print(f"For the search, serve it: python3 -m http.server --bind 127.0.0.1 -d {out}")


def build_site(root: Path, out: Path) -> None:
    """Render the site; any warning is an error, such as a missing anchor."""
    site = collect_pages(root, find_components())
    with tempfile.TemporaryDirectory(prefix="kilonova-docs-") as scratch:
        gathered = Path(scratch)
        site.write(gathered / "pages")
        settings = {
            "INHERIT": str(root / "mkdocs.yml"),
            "docs_dir": "pages",
            "site_dir": "site",
            "nav": build_menu(site.pages),
        }
        (gathered / "mkdocs.yml").write_text(
            yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        )
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        result = subprocess.run(command, cwd=gathered, check=False)
        if result.returncode:
            sys.exit(result.returncode)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(gathered / "site", out)


if __name__ == "__main__":
    main()

"""The tables of built-in kinds are up to date and small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kilonova.local.data import table

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("go_command")
def test_tables_of_built_in_kinds_are_up_to_date() -> None:
    check = subprocess.run(
        [sys.executable, "-m", "tools.schemas.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr


def test_only_stable_versions_are_served() -> None:
    kinds = json.loads(table("kinds.json"))
    versions = {(kind["group"], kind["version"]) for kind in kinds}
    assert {("", "v1"), ("apps", "v1"), ("autoscaling", "v1"), ("autoscaling", "v2")} <= versions
    assert not [version for _, version in versions if "alpha" in version or "beta" in version]


def test_a_pod_is_listed_with_all_its_names_and_subresources() -> None:
    (pod,) = (kind for kind in json.loads(table("kinds.json")) if kind["kind"] == "Pod")
    assert (pod["plural"], pod["singular"], pod["listKind"]) == ("pods", "pod", "PodList")
    assert (pod["shortNames"], pod["categories"], pod["namespaced"]) == (["po"], ["all"], True)
    eviction = next(each for each in pod["subresources"] if each["name"] == "eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == (
        "policy",
        "v1",
        "Eviction",
    )


def test_tables_are_smaller_than_a_megabyte() -> None:
    folder = ROOT / "src" / "kilonova" / "local" / "data"
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 1_000_000

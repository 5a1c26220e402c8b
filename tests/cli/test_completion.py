"""`kilonova completion`: scripts for shells."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.cli.command import Kilonova, complete_words

COMPLETE_DO = """
source <(kilonova completion bash)
COMP_WORDS=(kilonova do) COMP_CWORD=1
_kilonova_completion kilonova
echo "${COMPREPLY[@]}"
"""


def test_bash_completes_with_the_script(kilonova: Kilonova):
    program = kilonova.home / "bin" / "kilonova"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -P\nfrom kilonova.cli import main\nmain()\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", COMPLETE_DO],
        env=kilonova.environment() | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["down", "doctor"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("up", "--only", "no"), ["nodes"]),
        (("up", "--without", "nodes,sch"), ["nodes,scheduler"]),
        (("install", "--components", "op"), ["operator"]),
        (("up", "--nodes", "sm"), ["small"]),
    ],
)
def test_names_of_components_and_their_flags_are_completed(
    kilonova: Kilonova, words: tuple[str, ...], expected: list[str]
):
    assert complete_words(kilonova, words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_valid_for_its_shell(kilonova: Kilonova, shell: str):
    script = kilonova("completion", shell)
    assert script.code == 0
    assert f"_KILONOVA_COMPLETE=complete_{shell}" in script.out
    if shutil.which(shell):
        done = subprocess.run(
            [shell, "-n"], input=script.out, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_unsupported_shell_is_wrong_usage(kilonova: Kilonova):
    assert kilonova("completion", "tcsh").code == 2

"""Wrong usage exits with 2, whatever the command; `--version` prints the version."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from kilonova import __version__
from kilonova.cli.commands.app import app
from tests.cli.command import Kilonova


def _commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    below: dict[str, Any] = getattr(command, "commands", {})
    for name, each in below.items():
        yield from _commands(each, *path, name)
    if not below:
        yield path


COMMANDS = list(_commands(get_command(app)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_wrong_usage(kilonova: Kilonova, command: tuple[str, ...]):
    done = kilonova(*command, "--no-such-option")
    assert (done.code, done.out) == (2, "")
    assert "No such option: --no-such-option" in done.err


WRONG = {
    "no command": ("nonsense",),
    "no argument": ("why",),
    "too many": ("queues", "a", "b"),
    "output format": ("nodes", "-o", "xml"),
    "port": ("up", "--port", "70000"),
    "number": ("up", "--port", "many"),
    "file instead of directory": ("status", "--data", "a-file"),
    "column": ("nodes", "--sort-by", "nonsense"),
    "selector": ("gangs", "-l", "a in"),
    "kind": ("why", "service/web"),
    "two sources": ("queues", "--snapshot", "a", "--context", "b"),
    "watched snapshot": ("queues", "--snapshot", "a", "-w"),
    "neither": ("plan",),
    "both": ("plan", "--moves", "-f", "a"),
    "without --wipe": ("down", "--yes"),
    "two addresses": ("run", "operator", "--webhook-url", "https://a", "--webhook-service", "a/b"),
    "half of a service": ("run", "operator", "--webhook-service", "a"),
    "half of a certificate": ("run", "extender", "--tls-cert", "a-file"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_unparsable_arguments_are_wrong_usage(
    kilonova: Kilonova, tmp_path: Path, words: tuple[str, ...]
):
    (kilonova.home / "a-file").touch()
    nowhere = kilonova.home / "kubeconfig"
    nowhere.write_text(KUBECONFIG)
    reads_cluster = words[0] in ("nodes", "gangs", "why") and len(words) > 1
    done = kilonova(*words, *(("--kubeconfig", nowhere) if reads_cluster else ()))
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {}}]
"""


def test_version_option_prints_the_version(kilonova: Kilonova):
    assert kilonova("--version").out == f"kilonova {__version__}\n" == kilonova("version").out

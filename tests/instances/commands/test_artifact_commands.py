"""`kilonova builds` and `kilonova tokenizers`, as they are run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.artifacts.tokenizers.sample_tokenizers import train_bpe, write_model
from tests.cli.command import Kilonova

BUILD = {
    "id": "tiny-v1",
    "model": "tiny",
    "agents": 3,
    "accelerator": {"resource": "groq.com/lpu", "count": 8, "memory": "230Mi"},
    "topology": {"required": "kilonova.dev/rack"},
}


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    """The command, with a home directory of its own."""
    command = Kilonova(tmp_path)
    yield command
    command.stop_all()


def publish(kilonova: Kilonova, **changes: object) -> tuple[int, str]:
    """Publish a build to `builds`; exit code and errors."""
    file = kilonova.home / "build.json"
    file.write_text(json.dumps({**BUILD, **changes}))
    done = kilonova("builds", "publish", file, "--builds", kilonova.home / "builds")
    return done.code, done.err


def test_published_build_is_listed_and_shown(kilonova: Kilonova) -> None:
    assert publish(kilonova) == (0, "")
    assert publish(kilonova) == (0, "")
    folder = kilonova.home / "builds"
    done = kilonova("builds", "list", "--builds", folder)
    assert done.out.split("\n")[1].split() == [
        *("tiny-v1", "tiny", "3", "8", "groq.com/lpu", "each", "230Mi", "kilonova.dev/rack", "-")
    ]
    done = kilonova("builds", "show", "tiny-v1", "--builds", folder, "-o", "json")
    assert json.loads(done.out) == BUILD


def test_invalid_build_is_not_published(kilonova: Kilonova) -> None:
    code, problem = publish(kilonova, agents=0)
    assert code == 1
    assert problem.endswith("build.json: agents: 0 is out of range; use 1 to 10000\n")
    assert not (kilonova.home / "builds").exists()


def test_other_build_of_an_id_is_not_published(kilonova: Kilonova) -> None:
    publish(kilonova)
    code, problem = publish(kilonova, agents=4)
    assert code == 1
    assert "there is another build of this id; give the build another id" in problem


def test_broken_build_does_not_hide_the_others(kilonova: Kilonova) -> None:
    publish(kilonova)
    publish(kilonova, id="tiny-v2")
    (kilonova.home / "builds" / "tiny-v1.json").write_text("{}")
    done = kilonova("builds", "list", "--builds", kilonova.home / "builds", "-o", "json")
    assert done.code == 1
    assert [each["id"] for each in json.loads(done.out)] == ["tiny-v2"]
    assert "tiny-v1.json: the file is damaged: its SHA-256 is" in done.err


def test_source_that_is_none_is_one_line(kilonova: Kilonova) -> None:
    done = kilonova("builds", "list")
    assert (done.code, done.err) == (
        2,
        "kilonova: no source of builds: give --builds, or set KILONOVA_BUILDS\n",
    )
    done = kilonova("builds", "list", "--builds", "http://example.com")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("kilonova: http://example.com: unknown scheme 'http'; use a dir")


def test_tokenizer_is_added_listed_verified_and_copied(kilonova: Kilonova) -> None:
    model, store = write_model(kilonova.home / "model"), kilonova.home / "store"
    done = kilonova("tokenizers", "add", model, "--name", "Acme/Tiny", "--store", store)
    assert (done.code, done.out.split()[:3]) == (0, ["Acme/Tiny", "2", "files"])
    done = kilonova("tokenizers", "list", "--store", store, "-o", "json")
    [listed] = json.loads(done.out)
    assert (listed["key"], listed["name"], listed["source"]) == (
        "acme_tiny",
        "Acme/Tiny",
        str(model),
    )
    done = kilonova("tokenizers", "verify", variables={"KILONOVA_TOKENIZERS": str(store)})
    assert (done.code, done.out) == (0, "acme_tiny  ok  5 test cases\n")
    other = kilonova.home / "other"
    assert kilonova("tokenizers", "sync", store, other).out == "acme_tiny  added\n"
    assert kilonova("tokenizers", "sync", store, other, "acme/tiny").out == "acme/tiny  unchanged\n"
    done = kilonova("tokenizers", "list", "--store", other)
    assert done.out.split("\n")[1].split()[:2] == ["Acme/Tiny", "2"]


def test_broken_and_unknown_tokenizers_are_reported_with_the_others(kilonova: Kilonova) -> None:
    model, store = write_model(kilonova.home / "model"), kilonova.home / "store"
    for name in ("acme/good", "acme/bad"):
        kilonova("tokenizers", "add", model, "--name", name, "--text", "Hi", "--store", store)
    (store / "acme_bad" / "tokenizer.json").write_bytes(train_bpe("other"))
    runtimes = kilonova.home / "engine.yaml"
    runtimes.write_text("runtimes: {a: {hf_model_path: acme/bad}, b: {hf_model_path: acme/none}}")
    done = kilonova("tokenizers", "verify", "acme/good", "--runtimes", runtimes, "--store", store)
    assert (done.code, done.out) == (1, "acme/good  ok  1 test case\n")
    bad, none = done.err.splitlines()
    assert "acme_bad/tokenizer.json: the file was changed" in bad
    assert "acme_none: there is no such tokenizer" in none
    assert kilonova("tokenizers", "list", "--store", store).code == 1
    done = kilonova("tokenizers", "sync", store, kilonova.home / "other")
    assert (done.code, done.out) == (1, "acme_good  added\n")


def test_tokenizer_is_replaced_only_if_asked(kilonova: Kilonova) -> None:
    model, store = write_model(kilonova.home / "model"), kilonova.home / "store"
    add = ("tokenizers", "add", model, "--name", "acme/tiny", "--store", store)
    assert kilonova(*add).code == 0
    write_model(model, train_bpe("other"))
    done = kilonova(*add)
    assert done.code == 1
    assert "there is another tokenizer acme/tiny" in done.err
    assert kilonova(*add, "--replace").code == 0

"""Log lines: as JSON and for terminals, with secrets redacted."""

import io
import logging
from collections.abc import Callable, Iterator

import msgspec
import pytest

from kilonova.kube.observability.structured_logging import configure_logging, get_logger


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines(restore_logging: None) -> Callable[[], list[dict[str, object]]]:
    stream = io.StringIO()
    configure_logging(level="info", stream=stream)
    return lambda: [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_line_is_one_json_object_unless_terminal(lines):
    get_logger("kilonova.x").info("bound", pod="team/w-0", node="n1", took=0.5)
    (line,) = lines()
    assert {k: line[k] for k in ("level", "logger", "message", "pod", "node", "took")} == {
        "level": "info",
        "logger": "kilonova.x",
        "message": "bound",
        "pod": "team/w-0",
        "node": "n1",
        "took": 0.5,
    }
    assert str(line["time"]).endswith("Z")


def test_bound_fields_are_on_each_line_and_may_be_overridden(lines):
    log = get_logger("kilonova.x", controller="sets").bind(worker=1)
    log.info("a")
    log.warning("b", worker=2)
    assert [(line["controller"], line["worker"]) for line in lines()] == [("sets", 1), ("sets", 2)]


def test_field_does_not_overwrite_message_or_level(lines):
    get_logger("kilonova.x").info("said", level="gold", time=3)
    (line,) = lines()
    assert (line["message"], line["level"], line["level_"], line["time_"]) == (
        "said",
        "info",
        "gold",
        3,
    )


def test_percent_signs_in_a_message_are_literal(lines):
    get_logger("kilonova.x").info("100% of %s")
    assert lines()[0]["message"] == "100% of %s"


def test_exception_has_its_traceback(lines):
    try:
        raise ValueError("no such node")
    except ValueError:
        get_logger("kilonova.x").exception("lost", node="n1")
    assert "ValueError: no such node" in str(lines()[0]["traceback"])


def test_lines_of_libraries_have_the_same_form(lines):
    logging.getLogger("aiohttp.client").info("Opened %d connections", 7)
    assert lines()[0]["message"] == "Opened 7 connections"


def test_unknown_types_are_printed_as_text(lines):
    class Node:
        def __str__(self) -> str:
            return "n1"

    get_logger("kilonova.x").info("seen", node=Node(), ids={3})
    assert (lines()[0]["node"], lines()[0]["ids"]) == ("n1", [3])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", "s3cr3t"),
        ("id_token", "s3cr3t"),
        ("bearerToken", "s3cr3t"),
        ("password", "s3cr3t"),
        ("Authorization", "s3cr3t"),
        ("client-key-data", "s3cr3t"),
        ("clientKeyData", "s3cr3t"),
        ("api_key", "s3cr3t"),
        ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
        ("credentials", ["s3cr3t"]),
        ("user", {"name": "a", "token": "s3cr3t"}),
        ("headers", [{"authorization": "s3cr3t"}]),
        ("object", {"kind": "Secret", "data": {"x": "s3cr3t"}}),
        ("header", "Bearer s3cr3t"),
        ("text", "-----BEGIN RSA PRIVATE KEY-----\ns3cr3t\n-----END RSA PRIVATE KEY-----"),
        ("body", b"s3cr3t"),
    ],
)
def test_secrets_are_never_printed(lines, restore_logging, name, value):
    get_logger("kilonova.x").info("sent", **{name: value})
    terminal = Terminal()
    assert "s3cr3t" not in str(lines())
    configure_logging(stream=terminal)
    get_logger("kilonova.x").info("sent", **{name: value})
    assert "s3cr3t" not in terminal.getvalue()
    assert "sent" in terminal.getvalue()


def test_secrets_in_a_traceback_are_not_printed(lines):
    try:
        raise ValueError("sent Authorization: Bearer abc.def-ghi")
    except ValueError:
        get_logger("kilonova.x").exception("failed")
    assert "abc.def" not in str(lines())


@pytest.mark.parametrize(
    ("name", "value"),
    [("tokenizer", "llama"), ("key", "ns/x"), ("secret", "ns/x"), ("token", 7), ("tokens", 12)],
)
def test_names_that_only_resemble_secrets_are_printed(lines, name, value):
    get_logger("kilonova.x").info("seen", **{name: value})
    assert lines()[0][name] == value


def test_terminal_line_is_human_readable(restore_logging, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    configure_logging(stream=terminal)
    get_logger("kilonova.x").info("bound", pod="team/w-0", why="two words", what={"a": 1})
    text = terminal.getvalue()
    assert text.split(" ", 1)[1] == (
        'info    bound  pod=team/w-0 why="two words" what="{\\"a\\":1}"\n'
    )


def test_warnings_are_coloured_on_a_terminal(restore_logging, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    configure_logging(stream=terminal)
    get_logger("kilonova.x").warning("slow")
    assert "\x1b[33mwarning" in terminal.getvalue()


def test_level_is_read_from_the_environment(restore_logging, monkeypatch):
    monkeypatch.setenv("KILONOVA_LOG", "warning")
    stream = io.StringIO()
    configure_logging(stream=stream)
    log = get_logger("kilonova.x")
    log.info("hidden")
    log.error("shown")
    assert "hidden" not in stream.getvalue()
    assert "shown" in stream.getvalue()
    assert not log.is_enabled(logging.INFO)


def test_unknown_level_is_rejected_with_the_known_ones(restore_logging):
    with pytest.raises(ValueError, match="one of debug, info, warning, error"):
        configure_logging(level="loud")

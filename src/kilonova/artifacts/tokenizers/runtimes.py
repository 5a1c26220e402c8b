"""Which tokenizer each runtime uses: a file of the engine's configuration.

    runtimes:
      default:
        hf_model_path: CohereForAI/c4ai-command-a-reasoning-08-2025-fp16

Other fields of the file are the engine's own.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kilonova.artifacts.tokenizers.errors import (
    InvalidTokenizer,
    TokenizerError,
    TokenizerUnavailable,
)
from kilonova.artifacts.tokenizers.names import normalise_name
from kilonova.yaml_files import YamlFileError, describe_mismatch, read_yaml

T = TypeVar("T")


class Runtime(msgspec.Struct, frozen=True):
    """A runtime of an engine."""

    hf_model_path: str
    """The tokenizer: `org/model` or `org_model`."""


class _Configuration(msgspec.Struct, frozen=True):
    runtimes: dict[str, dict[str, Any]]


def read_runtimes(path: Path) -> dict[str, str]:
    """The name of the tokenizer of each runtime; `TokenizerError` with the field that is wrong."""
    try:
        document = read_yaml(path)
    except YamlFileError as error:
        raise TokenizerUnavailable("runtimes", str(error), "correct the file") from error
    names: dict[str, str] = {}
    for runtime, fields in _convert(document, _Configuration, path).runtimes.items():
        where = f"runtimes.{runtime}"
        names[runtime] = _convert(fields, Runtime, path, where).hf_model_path
        try:
            normalise_name(names[runtime])
        except TokenizerError as error:
            problem = f"{names[runtime]!r} is not the name of a tokenizer"
            field = f"{path}: {where}.hf_model_path"
            raise InvalidTokenizer(field, problem, error.fix) from error
    return names


def _convert(source: object, type_: type[T], path: Path, where: str = "") -> T:
    try:
        return msgspec.convert(source, type_)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, type_, error, where)
        raise InvalidTokenizer(f"{path}: {found.field}", found.problem, found.fix) from None

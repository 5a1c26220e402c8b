"""Names of tokenizers, and the configuration that has them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.artifacts.tokenizers import (
    InvalidTokenizer,
    TokenizerUnavailable,
    is_canonical,
    is_normalised,
    normalise_name,
    read_runtimes,
)

COHERE = "CohereForAI/c4ai-command-a-reasoning-08-2025-fp16"


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        (COHERE, "cohereforai_c4ai-command-a-reasoning-08-2025-fp16"),
        ("meta-llama/Llama-3.2-90B-Vision", "meta-llama_llama-3.2-90b-vision"),
        ("meta-llama_llama-3.2-90b-vision", "meta-llama_llama-3.2-90b-vision"),
        ("a/b_c", "a_b_c"),
    ],
)
def test_both_names_have_one_normalised_form(name: str, normalised: str) -> None:
    assert normalise_name(name) == normalised


@pytest.mark.parametrize(
    "name",
    [
        "",
        "model",
        "Org_Model",
        "a/b/c",
        "/a",
        "a/",
        "../a",
        "a/..",
        "a..b/c",
        "a b/c",
        "a/b\n",
        "_",
    ],
)
def test_other_texts_are_rejected(name: str) -> None:
    with pytest.raises(InvalidTokenizer, match="use ORG/MODEL, or org_model in lower case"):
        normalise_name(name)


part = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,10}[A-Za-z0-9])?", fullmatch=True)


@given(part, part)
def test_normalised_name_is_normalised(org: str, model: str) -> None:
    canonical = f"{org}/{model}"
    assert is_canonical(canonical)
    normalised = normalise_name(canonical)
    assert is_normalised(normalised)
    assert normalise_name(normalised) == normalised


def test_configuration_names_the_tokenizer_of_each_runtime(tmp_path: Path) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text(f"runtimes:\n  default:\n    hf_model_path: {COHERE}\n    threads: 4\n")
    assert read_runtimes(path) == {"default": COHERE}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("runtimes: {default: {}}", "runtimes.default.hf_model_path: is missing; it is required"),
        ("runtimes: []", "runtimes: a list is invalid; write fields with values"),
        (
            "runtimes: {default: {hf_model_path: 1}}",
            "runtimes.default.hf_model_path: 1 is invalid; write text",
        ),
        ("runtimes: {default: {hf_model_path: model}}", "runtimes.default.hf_model_path: 'model'"),
        ("other: 1", "runtimes: is missing"),
    ],
)
def test_invalid_configuration_is_explained(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text(content)
    with pytest.raises(InvalidTokenizer, match=message):
        read_runtimes(path)


def test_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerUnavailable, match="yaml cannot be read"):
        read_runtimes(tmp_path / "none.yaml")

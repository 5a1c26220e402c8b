"""Names of tokenizers: canonical, as on Hugging Face, and normalised, as folders are called."""

import re

from kilonova.artifacts.tokenizers.errors import InvalidTokenizer

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_CANONICAL = re.compile(f"{_PART}/{_PART}", re.ASCII)
_NORMALISED = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.ASCII)
_MAX_LENGTH = 128
"""Of a normalised name: it is also a tag of a registry."""


def is_canonical(name: str) -> bool:
    """Whether it is `org/model`, in the characters of Hugging Face."""
    return _CANONICAL.fullmatch(name) is not None and _is_safe(name)


def is_normalised(name: str) -> bool:
    """Whether it is `org_model`, in lower case."""
    return _NORMALISED.fullmatch(name) is not None and "_" in name and _is_safe(name)


def normalise_name(name: str) -> str:
    """`org_model` in lower case, of either form; `InvalidTokenizer` for another text.

    Two canonical names may have one normalised name; a store holds one of them.
    """
    if is_canonical(name):
        return name.replace("/", "_").lower()
    if is_normalised(name):
        return name
    fix = "use ORG/MODEL, or org_model in lower case"
    raise InvalidTokenizer(f"tokenizer {name[:80]!r}", "it is not the name of a tokenizer", fix)


def _is_safe(name: str) -> bool:
    return len(name) <= _MAX_LENGTH and ".." not in name

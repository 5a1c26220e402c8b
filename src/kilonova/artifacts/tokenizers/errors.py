"""Errors of tokenizers."""

from kilonova.artifacts.errors import ArtifactError


class TokenizerError(ArtifactError):
    """A tokenizer that cannot be used."""

    reason = "TokenizerError"


class InvalidTokenizer(TokenizerError):
    """The tokenizer is damaged, does not load, or encodes otherwise than when it was added."""

    reason = "InvalidTokenizer"


class TokenizerNotFound(TokenizerError):
    """The store has no such tokenizer."""

    reason = "TokenizerNotFound"


class TokenizerUnavailable(TokenizerError):
    """The store cannot be read, or a package is not installed: it may succeed later."""

    reason = "TokenizerUnavailable"

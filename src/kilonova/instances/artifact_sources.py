"""Where builds and tokenizers come from: for the controllers, for admission, and for commands."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kilonova.artifacts.builds import Build

BUILDS_VARIABLE = "KILONOVA_BUILDS"
"""The environment variable with the URL of the builds."""
TOKENIZERS_VARIABLE = "KILONOVA_TOKENIZERS"
"""The environment variable with the store of tokenizers."""


@dataclass(frozen=True, slots=True)
class ArtifactSources:
    """Builds and tokenizers; empty for what there is no source of."""

    builds: str = ""
    tokenizers: str = ""

    @classmethod
    def from_environment(
        cls,
        *,
        builds: str = "",
        tokenizers: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> "ArtifactSources":
        """What is given, else what the environment names."""
        known = os.environ if environment is None else environment
        return cls(
            builds or known.get(BUILDS_VARIABLE, ""),
            tokenizers or known.get(TOKENIZERS_VARIABLE, ""),
        )

    async def load_build(self, build_id: str) -> "Build":
        """The build of an id; `BuildError`. Loaded seldom: an allocation remembers its build."""
        from kilonova.artifacts.builds import open_build_source  # slow to import

        async with open_build_source(self.builds) as source:
            return await source.load(build_id)

    async def find_tokenizer_problem(self, name: str) -> str:
        """Why a release cannot name a tokenizer; empty if it can."""
        from kilonova.artifacts.tokenizers import (  # slow to import
            TokenizerError,
            check_tokenizer,
            open_tokenizer_store,
        )

        try:
            async with open_tokenizer_store(self.tokenizers) as store:
                await check_tokenizer(store, name)
        except TokenizerError as error:
            return str(error)
        return ""


def resolve_source(typed: str) -> str:
    """A source as it is typed, independent of the working directory."""
    return typed if "://" in typed else str(Path(typed).expanduser().absolute())

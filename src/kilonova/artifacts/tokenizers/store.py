"""Stores of tokenizers: what is in them is listed, added, verified, and copied to others."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kilonova.artifacts.tokenizers.cache_info import (
    CACHE_INFO_FILE,
    TEST_CASES_FILE,
    CacheInfo,
    Files,
    build_cache_info,
    encode_cache_info,
    parse_cache_info,
    verify_files,
)
from kilonova.artifacts.tokenizers.cases import (
    SAMPLES,
    is_library_installed,
    record_cases,
    run_cases,
)
from kilonova.artifacts.tokenizers.errors import (
    InvalidTokenizer,
    TokenizerNotFound,
    TokenizerUnavailable,
)
from kilonova.artifacts.tokenizers.names import is_canonical, normalise_name
from kilonova.artifacts.tokenizers.places import DirectoryPlace, StoredPlace, TokenizerPlace
from kilonova.artifacts.tokenizers.source_files import SourceFiles
from kilonova.objectstore import ObjectStoreError, S3Settings, S3Store
from kilonova.objectstore.locations import parse_location
from kilonova.objectstore.oci.location import OciLocation


class TokenizerInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A tokenizer of a list. One that cannot be read has a problem in place of the rest."""

    key: str
    """The normalised name."""
    name: str = ""
    source: str = ""
    revision: str = ""
    size: int = 0
    """The bytes of its files."""
    files: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StoredTokenizer:
    """A tokenizer whose files are those that its cache info lists."""

    key: str
    info: CacheInfo
    files: Files


class TokenizerStore:
    """Tokenizers in one place, by canonical or normalised name."""

    def __init__(self, place: TokenizerPlace) -> None:
        self.place = place

    async def list(self) -> list[TokenizerInfo]:
        """All tokenizers, by normalised name, broken ones too."""
        return [await self._describe(key) for key in await self.place.list()]

    async def read(self, name: str) -> StoredTokenizer:
        """A tokenizer with its files, whose checksums are verified."""
        key = normalise_name(name)
        files = await self.place.read(key)
        where = self.place.locate(key)
        if CACHE_INFO_FILE not in files:
            fix = "add the tokenizer with `kilonova tokenizers add`"
            raise InvalidTokenizer(where, f"there is no {CACHE_INFO_FILE}", fix)
        info = parse_cache_info(files[CACHE_INFO_FILE], where)
        if normalise_name(info.name) != key:
            raise InvalidTokenizer(where, f"it is {info.name}", f"move it to {info.name}")
        if is_canonical(name) and info.name.lower() != name.lower():
            fix = f"rename one of them: both are {key} in a store"
            raise TokenizerNotFound(where, f"it is {info.name}, not {name}", fix)
        verify_files(info, files, where)
        return StoredTokenizer(key, info, files)

    async def verify(self, name: str) -> int:
        """Verify the checksums, load the tokenizer and run its test cases; their number."""
        found = await self.read(name)
        return await asyncio.to_thread(run_cases, found.files, self.place.locate(found.key))

    async def add(
        self,
        source: SourceFiles,
        *,
        name: str = "",
        texts: tuple[str, ...] = (),
        replace: bool = False,
    ) -> CacheInfo:
        """Add a tokenizer under a canonical name, with a test case for each text.

        Adding what is there already changes nothing; another one of its name is an error, unless it
        is to be replaced.
        """
        name = name or source.name
        if not is_canonical(name):
            problem = f"{name!r} is not a canonical name" if name else "its name is not known"
            raise InvalidTokenizer(source.source, problem, "give it with --name ORG/MODEL")
        info = build_cache_info(name, source.source, source.revision, source.files)
        key = normalise_name(name)
        if not replace and not await self._is_vacant(key, info):
            return info
        where = source.source
        cases = await asyncio.to_thread(record_cases, source.files, texts or SAMPLES, where)
        own = {CACHE_INFO_FILE: encode_cache_info(info), TEST_CASES_FILE: cases}
        await self.place.write(key, {**source.files, **own})
        return info

    async def close(self) -> None:
        """Close connections."""
        await self.place.close()

    async def __aenter__(self) -> "TokenizerStore":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _describe(self, key: str) -> TokenizerInfo:
        try:
            found = await self.read(key)
        except (InvalidTokenizer, TokenizerNotFound) as error:
            return TokenizerInfo(key, problem=str(error))
        info = found.info
        size = sum(each.size for each in info.files)
        names = tuple(each.path for each in info.files)
        return TokenizerInfo(key, info.name, info.source, info.revision, size, names)

    async def _is_vacant(self, key: str, info: CacheInfo) -> bool:
        """Whether there is nothing of this name; False if there is the same."""
        try:
            present = (await self.read(key)).info
        except TokenizerNotFound:
            return True
        if (present.name, present.files) == (info.name, info.files):
            return False
        problem = f"there is another tokenizer {present.name}, of {present.source}"
        raise InvalidTokenizer(self.place.locate(key), problem, "replace it with --replace")


def open_tokenizer_store(url: str) -> TokenizerStore:
    """The store in a directory (also `file://`), `s3://bucket/prefix` or
    `oci://registry/repository`; nothing is read yet."""
    try:
        location = parse_location(url)
    except ObjectStoreError as error:
        raise TokenizerUnavailable(error.where, error.problem, error.fix) from error
    match location:
        case Path():
            return TokenizerStore(DirectoryPlace(location))
        case S3Settings():
            return TokenizerStore(StoredPlace(S3Store(location)))
        case OciLocation():
            from kilonova.artifacts.tokenizers.registry import RegistryPlace  # slow to import

            return TokenizerStore(RegistryPlace(location))


async def check_tokenizer(store: TokenizerStore, name: str) -> None:
    """Raise a `TokenizerError` with the reason why a Release cannot name this tokenizer.

    Its checksums are verified; it is loaded, too, where the library is installed.
    """
    await (store.verify(name) if is_library_installed() else store.read(name))


async def sync_tokenizer(source: TokenizerStore, target: TokenizerStore, key: str) -> str:
    """Copy a tokenizer, unless it is the same already; what was done: Added, Updated, Unchanged.

    One whose files do not have their checksums is not copied.
    """
    found = await source.read(key)
    try:
        present = await target.place.read(found.key)
    except TokenizerNotFound:
        present = None
    if present == found.files:
        return "Unchanged"
    await target.place.write(found.key, found.files)
    return "Added" if present is None else "Updated"

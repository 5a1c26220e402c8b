"""Tokenizers: files in Hugging Face's layout, with checksums, in a store that runtimes read.

- The **canonical** name of a tokenizer is `org/model`; the **normalised** one, of its folder, is
  `org_model` in lower case. Both are accepted everywhere.
- Its **cache info** (`tokenizer_cache_info.json`) specifies where it came from, and lists its files
  with their SHA-256.
- A **test case** is a text with the ids that it had when the tokenizer was added. The tokenizer is
  loaded by the library `tokenizers` (extra `kilonova[tokenizers]`) in a process of its own.

A **store** is a directory, a prefix of a bucket, or a repository of an OCI registry. What is wrong
with a tokenizer is said by a `TokenizerError`; `check_tokenizer` is for admission.
"""

from kilonova.artifacts.tokenizers.cache_info import CachedFile, CacheInfo
from kilonova.artifacts.tokenizers.errors import (
    InvalidTokenizer,
    TokenizerError,
    TokenizerNotFound,
    TokenizerUnavailable,
)
from kilonova.artifacts.tokenizers.names import is_canonical, is_normalised, normalise_name
from kilonova.artifacts.tokenizers.runtimes import read_runtimes
from kilonova.artifacts.tokenizers.source_files import SourceFiles, read_source
from kilonova.artifacts.tokenizers.store import (
    StoredTokenizer,
    TokenizerInfo,
    TokenizerStore,
    check_tokenizer,
    open_tokenizer_store,
    sync_tokenizer,
)

__all__ = [
    "CacheInfo",
    "CachedFile",
    "InvalidTokenizer",
    "SourceFiles",
    "StoredTokenizer",
    "TokenizerError",
    "TokenizerInfo",
    "TokenizerNotFound",
    "TokenizerStore",
    "TokenizerUnavailable",
    "check_tokenizer",
    "is_canonical",
    "is_normalised",
    "normalise_name",
    "open_tokenizer_store",
    "read_runtimes",
    "read_source",
    "sync_tokenizer",
]

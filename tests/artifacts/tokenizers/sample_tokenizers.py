"""Small real tokenizers, trained by the library."""

import json
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

NAME, KEY = "Acme/Tiny-BPE", "acme_tiny-bpe"


@cache
def train_bpe(corpus: str = "hello world") -> bytes:
    """A byte-level BPE, which keeps every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([corpus] * 10, trainer)
    return tokenizer.to_str().encode()


@cache
def train_word_pieces() -> bytes:
    """A WordPiece in lower case, which knows few letters."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=100, special_tokens=["[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(["hello, world!"] * 10, trainer)
    return tokenizer.to_str().encode()


def write_model(folder: Path, tokenizer: bytes | None = None) -> Path:
    """A folder of a model in Hugging Face's layout, with its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(tokenizer or train_bpe())
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 8192}))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("a model")
    return folder

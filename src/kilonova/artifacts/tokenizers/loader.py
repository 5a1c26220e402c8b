"""A program that loads a tokenizer and encodes texts with it.

    loader.py < tokenizer.json-and-texts > results

Tokenizers are data of others: what hangs or crashes the library must not hang or crash a
controller. The program runs alone, and imports nothing but the library. Its input is a line of
JSON, the texts, and then the content of `tokenizer.json`. Its output is an object with `cases` or
`problem`.
"""

import json
import sys


def encode_texts(content: str, texts: list[str]) -> dict[str, object]:
    """The ids of each text, and the text of these ids."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content)
    except BaseException as error:  # a panic of the library is no Exception
        return {"problem": f"the library does not load it: {error}"}
    cases: list[dict[str, object]] = []
    for text in texts:
        try:
            ids = tokenizer.encode(text).ids
            cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
        except BaseException as error:
            return {"problem": f"it does not encode {text!r}: {error}"}
    return {"cases": cases}


if __name__ == "__main__":
    header, _, body = sys.stdin.buffer.read().partition(b"\n")
    try:
        result = encode_texts(body.decode(), json.loads(header))
    except UnicodeDecodeError as error:
        result = {"problem": f"it is not text: {error}"}
    json.dump(result, sys.stdout)

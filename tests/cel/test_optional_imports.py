"""What the CEL runtime does not import."""

import subprocess
import sys

PROGRAM = """
import importlib, sys, threading
from kilonova.cel.optional_imports import PROTOBUF_IMPORT, without_protobuf

is_imported = threading.Event()

def load():
    with PROTOBUF_IMPORT:
        importlib.import_module("google.protobuf.symbol_database")
    is_imported.set()

thread = threading.Thread(target=load)
with without_protobuf():
    thread.start()
    assert not is_imported.wait(0.1)
    assert sys.modules["google.protobuf"] is None
thread.join()
assert is_imported.is_set()
with without_protobuf():
    assert sys.modules["google.protobuf"] is not None
"""


def test_import_in_a_thread_waits_until_protobuf_is_not_kept_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

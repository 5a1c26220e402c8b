"""The termination message of a run: its message file, or the end of its log."""

from pathlib import Path

from kilonova.local.processnode.kubelet.containers.logs import read_last_lines
from kilonova.local.processnode.kubelet.objects import Container

MAX_MESSAGE_BYTES = 4096
"""Limits on what is read of a run's output, which may be gigabytes."""
_MAX_LOG_BYTES = 2048
_MAX_LOG_LINES = 80


def read_termination_message(
    container: Container, exit_code: int, written: bytes, log: Path
) -> str:
    """`written` is the end of the run's termination message file."""
    text = written
    falls_back = container.termination_message_policy == "FallbackToLogsOnError"
    if not text and falls_back and exit_code != 0:
        text = read_last_lines(log, lines=_MAX_LOG_LINES, max_bytes=_MAX_LOG_BYTES)
    return text.decode(errors="replace")

"""The termination message of a run: what it left for that, or the end of its log."""

from pathlib import Path

from kilonova.local.nodes.process.kubelet.logs import last_lines
from kilonova.local.nodes.process.kubelet.pods import Container

MOST_BYTES = 4096
"""Of what a run wrote; a container may write any number of gigabytes."""
_MOST_LOG_BYTES = 2048
_MOST_LOG_LINES = 80


def termination_message(container: Container, exit_code: int, left: bytes, log: Path) -> str:
    """`left` is the end of what the run wrote to its termination message path."""
    text = left
    falls_back = container.termination_message_policy == "FallbackToLogsOnError"
    if not text and falls_back and exit_code != 0:
        text = last_lines(log, lines=_MOST_LOG_LINES, most=_MOST_LOG_BYTES)
    return text.decode(errors="replace")

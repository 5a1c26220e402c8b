"""Parts that `make real-parts` gets, in tests."""

from pathlib import Path

import pytest

from tools.realparts import find_part, missing_part_message


def require_part(name: str) -> Path:
    """The folder of a part; the test is skipped with a hint where it is missing."""
    found = find_part(name)
    if found is None:
        pytest.skip(missing_part_message(name))
    return found

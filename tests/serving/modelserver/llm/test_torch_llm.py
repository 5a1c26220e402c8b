"""Without PyTorch, its model cannot be loaded, and says so. What it computes is compared by
`python -m tools.hardware transformer`, as PyTorch is no dependency."""

import sys

import pytest

from kilonova.kube.observability.metrics import Metrics
from kilonova.serving.modelserver.errors import ModelLoadFailed
from kilonova.serving.modelserver.llm.build import read_llm
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.models.options import Options


async def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    load = read_llm(Options("--llm", "tiny,backend=torch,layers=2"), LlmMetrics(Metrics()))
    with pytest.raises(ModelLoadFailed, match="PyTorch is not installed: pip install torch"):
        await load()

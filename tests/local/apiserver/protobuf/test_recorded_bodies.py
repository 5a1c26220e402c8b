"""Bodies sent by Kubernetes 1.36's own programs, with the equivalent JSON.

`vectors.json` has requests of kubectl and kube-scheduler, and objects that kube-apiserver returned
both as protobuf and as JSON.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.apiserver.protobuf import decode_object

VECTORS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("vectors.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["from"] for vector in VECTORS])
def test_recorded_body_decodes_to_its_json(vector: dict[str, Any]):
    assert decode_object(base64.b64decode(vector["body"])) == vector["object"]

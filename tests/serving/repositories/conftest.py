"""Places of repositories: a folder, object stores, a registry."""

from pathlib import Path

import pytest

from tests.artifacts.conftest import (
    oci_registry as oci_registry,
)
from tests.objectstore.conftest import (
    Bucket,
)
from tests.objectstore.conftest import (
    aws_environment as aws_environment,
)
from tests.objectstore.conftest import (
    moto_bucket as moto_bucket,
)
from tests.objectstore.conftest import (
    moto_url as moto_url,
)
from tests.objectstore.conftest import (
    s3_bucket as s3_bucket,
)
from tests.objectstore.conftest import (
    s3_server as s3_server,
)


@pytest.fixture(
    params=[
        "folder",
        "moto",
        pytest.param("s3", marks=pytest.mark.real_parts),
        pytest.param("oci", marks=pytest.mark.real_parts),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a place without a repository, of each kind in turn."""
    if request.param == "folder":
        return f"file://{tmp_path}/published"
    if request.param == "oci":
        registry = request.getfixturevalue("oci_registry")
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
        return f"oci://{registry.address}/models/{request.node.name.split('[')[0]}:v1"
    bucket: Bucket = request.getfixturevalue(f"{request.param}_bucket")
    return f"s3://{bucket.name}/models/v1?endpoint={bucket.url}&region=us-east-1"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two models in Triton's layout, and a file beside them."""
    folder = tmp_path / "models"
    write_files(
        folder,
        {
            "cat/config.pbtxt": b'name: "cat"\n',
            "cat/1/model.onnx": bytes(range(256)) * 12000,
            "dog/1/model.onnx": b"a small model",
            "README.md": b"two models\n",
        },
    )
    return folder


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without those that downloads keep for themselves."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".kilonova")
    }

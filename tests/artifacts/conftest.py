"""Servers of artifacts: S3 (a real server, and moto's), an OCI registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.oci_registry import OciRegistry
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


@pytest.fixture(scope="session")
def oci_registry(
    oci_registry_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OciRegistry]:
    """A real registry without users."""
    with OciRegistry.start(oci_registry_part, tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="session")
def guarded_oci_registry(
    oci_registry_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OciRegistry]:
    """A real registry that wants a password."""
    folder = tmp_path_factory.mktemp("guarded")
    with OciRegistry.start_with_users(oci_registry_part, folder) as registry:
        yield registry

"""Real stores: buckets on S3 servers, and namespaces of API servers."""

from tests.objectstore.conftest import (
    aws_environment,
    moto_bucket,
    moto_url,
    s3_bucket,
    s3_server,
)

__all__ = ["aws_environment", "moto_bucket", "moto_url", "s3_bucket", "s3_server"]

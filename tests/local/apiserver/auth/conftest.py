"""A token issuer with a clock and a set of objects that the test controls."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kilonova.local.apiserver.auth import ServiceAccount, ServiceAccountTokenIssuer, SigningKey
from kilonova.local.clock import IdGenerator

ISSUER = "https://kubernetes.default.svc"
ACCOUNT = ServiceAccount("apps", "robot", "uid-robot")


@dataclass
class Cluster:
    """The current time, and the objects that exist."""

    time: datetime = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    objects: set[tuple[str, str, str, str]] = field(
        default_factory=lambda: {("ServiceAccount", "apps", "robot", "uid-robot")}
    )

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def exists(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return (kind, namespace, name, uid) in self.objects

    def tokens(self, *keys: SigningKey, issuer: str = ISSUER) -> ServiceAccountTokenIssuer:
        return ServiceAccountTokenIssuer(keys, issuer, [issuer], self.exists, self, IdGenerator())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="session", params=["ES256", "RS256"])
def key(request: pytest.FixtureRequest) -> SigningKey:
    if request.param == "ES256":
        return SigningKey.create()
    return SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@pytest.fixture
def tokens(cluster: Cluster, key: SigningKey) -> ServiceAccountTokenIssuer:
    return cluster.tokens(key)


@pytest.fixture
def account() -> ServiceAccount:
    return ACCOUNT

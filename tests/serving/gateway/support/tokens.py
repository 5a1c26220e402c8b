"""An issuer of JSON web tokens."""

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from functools import cache

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

from tests.harness.server_process import find_free_port

ISSUER = "https://issuer.example.com/"


@cache
def _make_key(number: int) -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Issuer:
    """It signs tokens, and serves its public keys."""

    port: int = 0
    key: RSAPrivateKey = field(default_factory=lambda: _make_key(0))
    fetches: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    @property
    def jwks(self) -> str:
        """Its public keys."""
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [public | {"kid": "0", "alg": "RS256", "use": "sig"}]})

    def sign(
        self,
        *,
        audience: str | Sequence[str] = "inference",
        lifetime: float = 600,
        issuer: str = ISSUER,
        forged: bool = False,
        **claims: object,
    ) -> str:
        """A token."""
        payload = {
            "iss": issuer,
            "aud": audience,
            "sub": "alice",
            "exp": int(time.time() + lifetime),
            **claims,
        }
        key = _make_key(1) if forged else self.key
        return jwt.encode(payload, key, algorithm="RS256", headers={"kid": "0"})


@contextlib.asynccontextmanager
async def run_issuer(port: int = 0) -> AsyncGenerator[Issuer]:
    """An issuer that serves its keys."""
    issuer = Issuer(port or find_free_port())

    async def answer(request: web.Request) -> web.Response:
        issuer.fetches += 1
        return web.Response(text=issuer.jwks, content_type="application/json")

    application = web.Application()
    application.router.add_get("/keys", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", issuer.port).start()
    try:
        yield issuer
    finally:
        await runner.cleanup()

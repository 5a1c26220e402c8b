"""A token server for the real registry: gives signed tokens to those who know the password."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.harness.oci_registry import OciRegistry

ISSUER, SERVICE = "test-issuer", "test-registry"


class TokenServer:
    """Serves tokens; `given` counts them. One that expires at once makes the registry ask again."""

    def __init__(self, folder: Path) -> None:
        self.given = 0
        self.lifetime = timedelta(minutes=5)
        self.refresh_token = "a-refresh-token"
        self.url = ""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._create_certificate()
        self.bundle = folder / "bundle.pem"
        self.bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self._runner: web.AppRunner | None = None

    @property
    def registry_auth(self) -> str:
        """The line of the registry's configuration."""
        return (
            f'auth: {{token: {{realm: "{self.url}", service: {SERVICE}, issuer: {ISSUER}, '
            f"rootcertbundle: {self.bundle}}}}}"
        )

    async def __aenter__(self) -> "TokenServer":
        application = web.Application()
        application.router.add_route("*", "/token", self._serve)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/token"
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            form = await request.post()
            allowed = form["refresh_token"] == self.refresh_token
            scope = str(form["scope"])
        else:
            plain = f"{OciRegistry.user}:{OciRegistry.password}".encode()
            expected = f"Basic {base64.b64encode(plain).decode()}"
            allowed = request.headers.get("authorization") == expected
            scope = request.query["scope"]
        if not allowed:
            return web.Response(status=401)
        self.given += 1
        return web.Response(body=msgspec.json.encode({"token": self._sign(scope)}))

    def _sign(self, scope: str) -> str:
        kind, name, actions = scope.split(":")
        now = datetime.now(UTC)
        claims = {
            "iss": ISSUER,
            "aud": SERVICE,
            "sub": OciRegistry.user,
            "nbf": now - timedelta(minutes=10),
            "iat": now - timedelta(minutes=10),
            "exp": now + self.lifetime,
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        chain = [base64.b64encode(der).decode()]
        return jwt.encode(claims, self._key, "ES256", {"x5c": chain})

    def _create_certificate(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

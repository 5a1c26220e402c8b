"""The key that signs ServiceAccount tokens: ECDSA P-256 (ES256) or RSA (RS256)."""

from base64 import urlsafe_b64encode
from functools import cached_property
from hashlib import sha256

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kilonova.api.json import JsonObject

_COORDINATE_BYTES = 32


class SigningKey:
    """A private key with its algorithm and its id."""

    def __init__(self, private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        if isinstance(private, ec.EllipticCurvePrivateKey):
            if not isinstance(private.curve, ec.SECP256R1):
                raise ValueError(f"an elliptic curve key must be P-256, not {private.curve.name}")
            self.algorithm = "ES256"
        else:
            if private.key_size < 2048:
                raise ValueError(f"an RSA key must have 2048 bits or more, not {private.key_size}")
            self.algorithm = "RS256"
        self.private = private

    @classmethod
    def create(cls) -> "SigningKey":
        """A fresh ECDSA key."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load(cls, pem: bytes) -> "SigningKey":
        """A key from its PEM; ValueError if it is not supported."""
        private = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the key that signs tokens must be an ECDSA or RSA key")
        return cls(private)

    @property
    def pem(self) -> bytes:
        """The private key as PEM."""
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @cached_property
    def public(self) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
        return self.private.public_key()

    @cached_property
    def key_id(self) -> str:
        """The key id as Kubernetes computes it: the digest of the public key."""
        der = self.public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _base64url(sha256(der).digest())

    def public_jwk(self) -> JsonObject:
        """The public key as a JSON Web Key."""
        jwk: JsonObject = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if isinstance(self.public, ec.EllipticCurvePublicKey):
            point = self.public.public_numbers()
            coordinates = {"x": point.x, "y": point.y}
            encoded = {
                name: _base64url(value.to_bytes(_COORDINATE_BYTES, "big"))
                for name, value in coordinates.items()
            }
            return {**jwk, "kty": "EC", "crv": "P-256", **encoded}
        numbers = self.public.public_numbers()
        return {
            **jwk,
            "kty": "RSA",
            "n": _encode_integer(numbers.n),
            "e": _encode_integer(numbers.e),
        }


def _encode_integer(value: int) -> str:
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")

"""Kubernetes' messages for aiohttp's connection errors."""

import ssl

import aiohttp

_EXPIRED, _NOT_YET, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64


def connection_error_message(error: BaseException) -> str:
    """Why the connection failed or was lost."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        cause: object = getattr(error, "certificate_error", error)
        return f"tls: failed to verify certificate: x509: {_certificate_error_message(cause)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, aiohttp.ClientConnectorError):
        return (
            f"dial tcp {error.host}:{error.port}: connect: {_system_error_message(error.os_error)}"
        )
    if isinstance(error, ConnectionResetError):
        return "read: connection reset by peer"
    return "EOF"


def _certificate_error_message(error: object) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (_EXPIRED, _NOT_YET):
            return "certificate has expired or is not yet valid"
        if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
            return "certificate is not valid" + error.verify_message.partition("not valid")[2]
    return "certificate signed by unknown authority"


def _system_error_message(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error)).lower()

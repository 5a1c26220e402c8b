"""URLs."""

from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from kilonova.cel.functions.declaration import (
    FunctionLibrary,
    unwrap_opaque,
    wrap_opaque,
)

URLS = FunctionLibrary()

_Opaque = dict[str, str]


def _parse_url(text: str) -> SplitResult:
    """An absolute URL, or a path from the root, as in an HTTP request line."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    if not text or any(character <= " " or character == "\x7f" for character in text):
        detail = "empty url" if not text else "invalid character in URL"
    elif not parts.scheme and not text.startswith("/"):
        detail = "invalid URI for request"
    else:
        return parts
    raise ValueError(f'URL parse error during conversion from string: parse "{text}": {detail}')


def _unwrap_url(value: _Opaque) -> SplitResult:
    return urlsplit(unwrap_opaque("url", value))


@URLS.function("url", "string -> url")
def url(text: str) -> _Opaque:
    _parse_url(text)
    return wrap_opaque("url", text)


@URLS.function("isURL", "string -> bool")
def is_url(text: str) -> bool:
    try:
        _parse_url(text)
    except ValueError:
        return False
    return True


@URLS.method("getScheme", "url -> string")
def get_scheme(value: _Opaque) -> str:
    return _unwrap_url(value).scheme


@URLS.method("getHost", "url -> string")
def get_host(value: _Opaque) -> str:
    return _unwrap_url(value).netloc.rpartition("@")[2]


@URLS.method("getHostname", "url -> string")
def get_hostname(value: _Opaque) -> str:
    host = get_host(value)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@URLS.method("getPort", "url -> string")
def get_port(value: _Opaque) -> str:
    return get_host(value).rpartition("]")[2].partition(":")[2]


@URLS.method("getEscapedPath", "url -> string")
def get_escaped_path(value: _Opaque) -> str:
    return quote(_unwrap_url(value).path, safe="/%:@!$&'()*+,;=-._~")


@URLS.method("getQuery", "url -> map(string, list(string))")
def get_query(value: _Opaque) -> dict[str, list[str]]:
    return parse_qs(_unwrap_url(value).query, keep_blank_values=True)

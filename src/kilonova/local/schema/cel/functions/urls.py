"""URLs."""

from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from kilonova.local.schema.cel.functions.declare import Library, opened, sealed

URLS = Library()

_Sealed = dict[str, str]


def _read(text: str) -> SplitResult:
    """An absolute URL, or a path from the root; what an HTTP request line may hold."""
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


def _parts(value: _Sealed) -> SplitResult:
    return urlsplit(opened("url", value))


@URLS.function("url", "string -> url")
def url(text: str) -> _Sealed:
    _read(text)
    return sealed("url", text)


@URLS.function("isURL", "string -> bool")
def is_url(text: str) -> bool:
    try:
        _read(text)
    except ValueError:
        return False
    return True


@URLS.method("getScheme", "url -> string")
def get_scheme(value: _Sealed) -> str:
    return _parts(value).scheme


@URLS.method("getHost", "url -> string")
def get_host(value: _Sealed) -> str:
    return _parts(value).netloc.rpartition("@")[2]


@URLS.method("getHostname", "url -> string")
def get_hostname(value: _Sealed) -> str:
    host = get_host(value)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@URLS.method("getPort", "url -> string")
def get_port(value: _Sealed) -> str:
    return get_host(value).rpartition("]")[2].partition(":")[2]


@URLS.method("getEscapedPath", "url -> string")
def get_escaped_path(value: _Sealed) -> str:
    return quote(_parts(value).path, safe="/%:@!$&'()*+,;=-._~")


@URLS.method("getQuery", "url -> map(string, list(string))")
def get_query(value: _Sealed) -> dict[str, list[str]]:
    return parse_qs(_parts(value).query, keep_blank_values=True)

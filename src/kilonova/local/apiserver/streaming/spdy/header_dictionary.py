"""The dictionary for the compression of SPDY/3 headers, shared by both peers."""

_DICTIONARY_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language
accept-ranges age allow authorization cache-control connection content-base content-encoding
content-language content-length content-location content-md5 content-range content-type date etag
expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer
retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
""".replace("\n", " ").split()

_DICTIONARY_TAIL = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    b"401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    b"503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    b"Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    b"application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    b"charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _with_length(name: str) -> bytes:
    text = name.replace("_", " ").encode()
    return len(text).to_bytes(4, "big") + text


HEADER_DICTIONARY = b"".join(map(_with_length, _DICTIONARY_WORDS)) + _DICTIONARY_TAIL

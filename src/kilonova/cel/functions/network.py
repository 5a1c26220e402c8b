"""IP addresses and CIDRs."""

import ipaddress

from kilonova.cel.functions.declaration import (
    FunctionLibrary,
    unwrap_opaque,
    wrap_opaque,
)

NETWORK = FunctionLibrary()

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Opaque = dict[str, str]


def read_ip(text: str) -> _Address:
    """An address without a zone; IPv4-mapped addresses become IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(
            f'IP Address "{text}" parse error during conversion from string: {error}'
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def read_cidr(text: str) -> tuple[_Address, int]:
    """The address as written, including host bits, and the prefix length."""
    host, slash, bits = text.partition("/")
    try:
        address = read_ip(host)
    except ValueError as error:
        raise ValueError(
            f"network address parse error during conversion from string: {error}"
        ) from None
    plain = bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0")
    if not slash or not plain or int(bits) > address.max_prefixlen:
        raise ValueError(
            "network address parse error during conversion from string: "
            f'netip.ParsePrefix("{text}"): bad prefix length'
        )
    return address, int(bits)


def _unwrap_ip(value: _Opaque) -> _Address:
    return ipaddress.ip_address(unwrap_opaque("ip", value))


def _unwrap_cidr(value: _Opaque) -> tuple[_Address, int]:
    return read_cidr(unwrap_opaque("cidr", value))


def _make_network(address: _Address, bits: int) -> _Network:
    return ipaddress.ip_network(f"{address}/{bits}", strict=False)


@NETWORK.function("ip", "string -> ip")
def ip(text: str) -> _Opaque:
    return wrap_opaque("ip", str(read_ip(text)))


@NETWORK.method("ip", "cidr -> ip")
def ip_of_cidr(value: _Opaque) -> _Opaque:
    return wrap_opaque("ip", str(_unwrap_cidr(value)[0]))


@NETWORK.function("isIP", "string -> bool")
def is_ip(text: str) -> bool:
    try:
        read_ip(text)
    except ValueError:
        return False
    return True


@NETWORK.function("ip.isCanonical", "string -> bool")
def is_canonical(text: str) -> bool:
    return str(read_ip(text)) == text


@NETWORK.method("family", "ip -> int")
def family(value: _Opaque) -> int:
    return _unwrap_ip(value).version


@NETWORK.method("isUnspecified", "ip -> bool")
def is_unspecified(value: _Opaque) -> bool:
    return _unwrap_ip(value).is_unspecified


@NETWORK.method("isLoopback", "ip -> bool")
def is_loopback(value: _Opaque) -> bool:
    return _unwrap_ip(value).is_loopback


@NETWORK.method("isLinkLocalMulticast", "ip -> bool")
def is_link_local_multicast(value: _Opaque) -> bool:
    address = _unwrap_ip(value)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


@NETWORK.method("isLinkLocalUnicast", "ip -> bool")
def is_link_local_unicast(value: _Opaque) -> bool:
    return _unwrap_ip(value).is_link_local


@NETWORK.method("isGlobalUnicast", "ip -> bool")
def is_global_unicast(value: _Opaque) -> bool:
    address = _unwrap_ip(value)
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


@NETWORK.function("cidr", "string -> cidr")
def cidr(text: str) -> _Opaque:
    address, bits = read_cidr(text)
    return wrap_opaque("cidr", f"{address}/{bits}")


@NETWORK.function("isCIDR", "string -> bool")
def is_cidr(text: str) -> bool:
    try:
        read_cidr(text)
    except ValueError:
        return False
    return True


@NETWORK.method("containsIP", "cidr, string -> bool", "cidr, ip -> bool")
def contains_ip(value: _Opaque, other: _Opaque | str) -> bool:
    address = read_ip(other) if isinstance(other, str) else _unwrap_ip(other)
    return address in _make_network(*_unwrap_cidr(value))


@NETWORK.method("containsCIDR", "cidr, string -> bool", "cidr, cidr -> bool")
def contains_cidr(value: _Opaque, other: _Opaque | str) -> bool:
    outer = _make_network(*_unwrap_cidr(value))
    address, bits = read_cidr(other) if isinstance(other, str) else _unwrap_cidr(other)
    return address in outer and outer.prefixlen <= bits


@NETWORK.method("prefixLength", "cidr -> int")
def prefix_length(value: _Opaque) -> int:
    return _unwrap_cidr(value)[1]


@NETWORK.method("masked", "cidr -> cidr")
def masked(value: _Opaque) -> _Opaque:
    return wrap_opaque("cidr", str(_make_network(*_unwrap_cidr(value))))

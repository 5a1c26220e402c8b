"""IP addresses and networks."""

import ipaddress

from kilonova.local.schema.cel.functions.declare import Library, opened, sealed

NETWORK = Library()

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Sealed = dict[str, str]


def read_ip(text: str) -> _Address:
    """An address without a zone; IPv4 is written as such."""
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
    """The address as written, host bits and all, and the length of the prefix."""
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


def _ip(value: _Sealed) -> _Address:
    return ipaddress.ip_address(opened("ip", value))


def _prefix(value: _Sealed) -> tuple[_Address, int]:
    return read_cidr(opened("cidr", value))


def _network(address: _Address, bits: int) -> _Network:
    return ipaddress.ip_network(f"{address}/{bits}", strict=False)


@NETWORK.function("ip", "string -> ip")
def ip(text: str) -> _Sealed:
    return sealed("ip", str(read_ip(text)))


@NETWORK.method("ip", "cidr -> ip")
def ip_of_cidr(value: _Sealed) -> _Sealed:
    return sealed("ip", str(_prefix(value)[0]))


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
def family(value: _Sealed) -> int:
    return _ip(value).version


@NETWORK.method("isUnspecified", "ip -> bool")
def is_unspecified(value: _Sealed) -> bool:
    return _ip(value).is_unspecified


@NETWORK.method("isLoopback", "ip -> bool")
def is_loopback(value: _Sealed) -> bool:
    return _ip(value).is_loopback


@NETWORK.method("isLinkLocalMulticast", "ip -> bool")
def is_link_local_multicast(value: _Sealed) -> bool:
    address = _ip(value)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


@NETWORK.method("isLinkLocalUnicast", "ip -> bool")
def is_link_local_unicast(value: _Sealed) -> bool:
    return _ip(value).is_link_local


@NETWORK.method("isGlobalUnicast", "ip -> bool")
def is_global_unicast(value: _Sealed) -> bool:
    address = _ip(value)
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


@NETWORK.function("cidr", "string -> cidr")
def cidr(text: str) -> _Sealed:
    address, bits = read_cidr(text)
    return sealed("cidr", f"{address}/{bits}")


@NETWORK.function("isCIDR", "string -> bool")
def is_cidr(text: str) -> bool:
    try:
        read_cidr(text)
    except ValueError:
        return False
    return True


@NETWORK.method("containsIP", "cidr, string -> bool", "cidr, ip -> bool")
def contains_ip(value: _Sealed, other: _Sealed | str) -> bool:
    address = read_ip(other) if isinstance(other, str) else _ip(other)
    return address in _network(*_prefix(value))


@NETWORK.method("containsCIDR", "cidr, string -> bool", "cidr, cidr -> bool")
def contains_cidr(value: _Sealed, other: _Sealed | str) -> bool:
    outer = _network(*_prefix(value))
    address, bits = read_cidr(other) if isinstance(other, str) else _prefix(other)
    return address in outer and outer.prefixlen <= bits


@NETWORK.method("prefixLength", "cidr -> int")
def prefix_length(value: _Sealed) -> int:
    return _prefix(value)[1]


@NETWORK.method("masked", "cidr -> cidr")
def masked(value: _Sealed) -> _Sealed:
    return sealed("cidr", str(_network(*_prefix(value))))

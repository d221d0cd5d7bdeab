"""Who is at the other end of a connection, as far as shares go.

Whoever has one IPv6 address has the 2**64 of its network, so there a network counts as one. An IPv4 address
that a socket for both shows in IPv6 is itself.
"""

import ipaddress
from functools import lru_cache

NETWORK_BITS = 64


@lru_cache(maxsize=4096)
def peer_of(host: str) -> str:
    """What counts as one: an IPv4 address, an IPv6 network; anything else as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))

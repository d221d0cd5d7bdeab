"""What one has a share as: whoever may choose among addresses has no share for each."""

import ast
from pathlib import Path

import pytest

from headrace_engine.server.peer import peer_of

SERVER = Path(peer_of.__wrapped__.__code__.co_filename).parent


def test_addresses_of_one_ipv6_network_are_one() -> None:
    of_one = {peer_of(f"2001:db8:1:2:{n:x}:{n:x}:0:1") for n in range(1, 50)}
    assert of_one == {"2001:db8:1:2::/64"}
    assert peer_of("2001:db8:1:3::1") not in of_one


def test_ipv4_addresses_are_apart_and_the_same_in_ipv6() -> None:
    assert len({peer_of(f"10.0.0.{n}") for n in range(50)}) == 50
    assert peer_of("::ffff:10.0.0.7") == peer_of("10.0.0.7") == "10.0.0.7"
    assert peer_of("::ffff:10.0.0.8") != peer_of("10.0.0.7")


@pytest.mark.parametrize(
    ("host", "peer"), [("", ""), ("testclient", "testclient"), ("fe80::1%eth0", "fe80::/64")]
)
def test_what_is_no_address_stays_what_it_is(host, peer) -> None:
    assert peer_of(host) == peer


def test_whoever_asks_for_an_address_asks_for_its_peer() -> None:
    """A share by the address as it stands would be none."""
    bare = []
    for path in SERVER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.IfExp) and "client" in ast.unparse(node.test):
                bare += (
                    [] if ast.unparse(node.body).startswith("peer_of(") else [f"{path.name}: {node.lineno}"]
                )
    assert bare == []

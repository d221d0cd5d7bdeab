"""The addresses of one cluster, and the link between the machine and the cluster's network namespace.

Clusters share 198.18.0.0/15, the range set aside for benchmarks and seldom routed anywhere: the cluster with
index k has 198.18.4k.0/24 for its link, 198.18.4k+1.0/24 for pods and 198.19.4k.0/22 for Services.
"""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from headrace_local.missing import Missing

MAX_CLUSTERS = 64
API_PORT = 6443


@dataclass(frozen=True, slots=True)
class Addresses:
    """Every address of the cluster with this index."""

    index: int

    @property
    def link(self) -> IPv4Network:
        return IPv4Network(f"198.18.{4 * self.index}.0/24")

    @property
    def pods(self) -> IPv4Network:
        return IPv4Network(f"198.18.{4 * self.index + 1}.0/24")

    @property
    def services(self) -> IPv4Network:
        return IPv4Network(f"198.19.{4 * self.index}.0/22")

    @property
    def host(self) -> IPv4Address:
        """The machine's end of the link: pods reach programs of the machine here."""
        return self.link[1]

    @property
    def node(self) -> IPv4Address:
        """The cluster's end: the API server, the kubelet and the DNS server listen here."""
        return self.link[2]

    @property
    def kubernetes_service(self) -> IPv4Address:
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        return self.services[10]

    @property
    def api_url(self) -> str:
        return f"https://{self.node}:{API_PORT}"

    def overlaps(self, routed: Iterable[IPv4Network]) -> bool:
        """Whether any of these networks is routed already."""
        mine = (self.link, self.pods, self.services)
        return any(net.overlaps(other) for net in mine for other in routed)


def free_addresses(routed: list[IPv4Network], taken: set[int]) -> Addresses:
    """The lowest index that no known cluster has and whose networks lead nowhere yet."""
    for index in range(MAX_CLUSTERS):
        candidate = Addresses(index)
        if index not in taken and not candidate.overlaps(routed):
            return candidate
    raise Missing(
        "All of 198.18.0.0/15 is routed on this machine, and the local cluster's addresses come from there."
    )


def routed_networks() -> list[IPv4Network]:
    """What the machine routes, but for its default route."""
    shown = subprocess.run(["ip", "-json", "-4", "route", "show"], check=True, capture_output=True, text=True)
    destinations = [route["dst"] for route in json.loads(shown.stdout or "[]")]
    return [IPv4Network(dst, strict=False) for dst in destinations if dst not in ("default", "0.0.0.0/0")]


def connect(addresses: Addresses, link_name: str, namespace_pid: int) -> None:
    """Lay the link into the network namespace of a process, and the routes that lead through it."""
    inside = ["nsenter", f"--target={namespace_pid}", "--net"]
    prefix = addresses.link.prefixlen
    _run("ip", "link", "add", link_name, "type", "veth", "peer", "name", "eth0", "netns", str(namespace_pid))
    _run("ip", "addr", "add", f"{addresses.host}/{prefix}", "dev", link_name)
    _run("ip", "link", "set", link_name, "up")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "addr", "add", f"{addresses.node}/{prefix}", "dev", "eth0")
    _run(*inside, "ip", "link", "set", "eth0", "up")
    _run(*inside, "ip", "route", "add", "default", "via", str(addresses.host))
    _run(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for network in (addresses.pods, addresses.services):
        _run("ip", "route", "add", str(network), "via", str(addresses.node), "dev", link_name)


def disconnect(link_name: str) -> None:
    """Take the link away; its other end and the routes go with it."""
    # It also goes by itself some time after the namespace's last process: to find none is no failure.
    subprocess.run(["ip", "link", "delete", link_name], check=False, capture_output=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(
            f"The network of the local cluster cannot be made: `{' '.join(command)}`: {done.stderr.strip()}"
        )

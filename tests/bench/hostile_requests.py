"""How long a server's event loop stands still, and how far its memory grows, for each of many hostile bodies.

    PYTHONPATH=tests python tests/bench/hostile_requests.py MODEL_DIRECTORY [BODIES]

Prints a row for the documentation: the median, the 99th percentile and the worst. Run it on a quiet machine.
"""

import random
import subprocess
import sys
from pathlib import Path

from attacked_server import AttackedServer
from hostile_bodies import request

TARGET = Path(__file__).parents[1] / "component/server/security/target.py"


def measure(server: AttackedServer, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds and MiB, sorted."""
    chance = random.Random(7)
    seen = []
    for _ in range(count):
        body = request(chance)
        seen.append(server.watched(lambda body=body: [server.send(body)]))
    stalls_ms = sorted(1000 * each.stall_s for each in seen)
    grown_mib = sorted(each.grown_bytes / (1 << 20) for each in seen)
    return stalls_ms, grown_mib


def row(name: str, values: list[float]) -> str:
    median, late, worst = (values[min(int(len(values) * share), len(values) - 1)] for share in (0.5, 0.99, 1))
    return f"| {name} | {median:.0f} | {late:.0f} | {worst:.0f} |"


def main() -> None:
    directory, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    command = [sys.executable, str(TARGET), directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stalls_ms, grown_mib = measure(AttackedServer(process, process.stdout.readline().strip()), count)
        process.terminate()
    print(f"| of {count} bodies | median | 99 % | worst |\n| --- | --- | --- | --- |")
    print(row("event loop, ms", stalls_ms))
    print(row("memory, MiB", grown_mib))


if __name__ == "__main__":
    main()

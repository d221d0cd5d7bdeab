"""The process of an engine core: `python -m headrace_engine.link.child FD`, its errand on standard input.

Signals that mean leaving are HTTP's to obey: it drains, then says stop. When HTTP is gone the kernel ends
this process at once, and the end of the link would too: nobody is left to generate for.
"""

import ctypes
import os
import signal
import socket
import sys
from dataclasses import dataclass
from functools import partial

from pydantic import TypeAdapter

from headrace_engine.server.config import ServeConfig

CHILD = "headrace_engine.link.child"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Errand:
    """What a core is started for."""

    config: ServeConfig
    log_level: str

    def dump(self) -> bytes:
        return TypeAdapter(Errand).dump_json(self)


def main() -> None:
    """Ends the process, with 0 if it was told to stop."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    link = socket.socket(fileno=int(sys.argv[1]))
    errand = TypeAdapter(Errand).validate_json(sys.stdin.buffer.read())
    from headrace_engine.link.core import EngineCore  # noqa: PLC0415 - after the signals
    from headrace_engine.server.loading import load_runner  # noqa: PLC0415
    from headrace_engine.telemetry.logs import configure  # noqa: PLC0415

    configure(errand.log_level)
    told = EngineCore(link, partial(load_runner, errand.config)).run()
    # A model that is still being loaded on its thread would take the interpreter's own shutdown down with it.
    os._exit(0 if told else 1)


if __name__ == "__main__":
    main()

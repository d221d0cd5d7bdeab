"""Where an engine core runs: in a process of its own, or on threads of this one.

A process of its own is what `headrace serve` starts: neither side waits for the other's interpreter. Threads
are for a program that brings its model along, and for whoever measures the difference.
"""

import contextlib
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace_engine.link.child import CHILD, Errand
from headrace_engine.link.core import EngineCore
from headrace_engine.server.config import ServeConfig
from headrace_engine.server.model import LoadedModel, ModelFacts, Runner
from headrace_engine.server.prompts import Tokenizer

log = logging.getLogger(__name__)


class CoreHost(Protocol):
    """Runs one engine core."""

    @property
    def pid(self) -> int | None:
        """Its process, if it has one of its own."""

    def start(self) -> socket.socket:
        """HTTP's end of the link. Raises `OSError` where nothing can be started."""

    def tokenizer(self, directory: Path) -> Tokenizer:
        """Of the model, once it was found; blocks. Raises `ModelLoadError`."""

    def end(self, timeout_s: float) -> str | None:
        """Waits for the core, which was told to stop or is gone, and ends one that does not; blocks. What it
        died of, if it did not end by itself.
        """


class ThreadHost:
    """A core on threads of this process; `load` brings the model and its tokenizer."""

    pid = None

    def __init__(self, load: Callable[[], LoadedModel]) -> None:
        self._load = load
        self._thread: threading.Thread | None = None
        self._tokenizer: Tokenizer | None = None

    def start(self) -> socket.socket:
        near, far = socket.socketpair()
        core = EngineCore(far, self._load_model)

        def run() -> None:
            with far:
                core.run()

        self._thread = threading.Thread(target=run, name="engine-core", daemon=True)
        self._thread.start()
        return near

    def tokenizer(self, directory: Path) -> Tokenizer:
        assert self._tokenizer is not None, f"{directory} was found with its tokenizer"
        return self._tokenizer

    def end(self, timeout_s: float) -> None:
        """A step that hangs is not waited for: its thread ends with the process."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _load_model(self, found: Callable[[Path], None]) -> tuple[Runner, ModelFacts]:
        model = self._load()
        self._tokenizer = model.tokenizer
        found(Path())
        return model.runner, model.facts


class ProcessHost:
    """A core in a child process, which ends when this process does, however that ends."""

    def __init__(self, config: ServeConfig, log_level: str) -> None:
        self._errand = Errand(config, log_level)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def start(self) -> socket.socket:
        near, far = socket.socketpair()
        with far:
            try:
                # By a thread that lives as long as this process: the kernel ends the child with it.
                self._child = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                    [sys.executable, "-P", "-m", CHILD, str(far.fileno())],
                    stdin=subprocess.PIPE,
                    pass_fds=[far.fileno()],
                )
            except OSError:
                near.close()
                raise
        self._instruct(self._child)
        return near

    def tokenizer(self, directory: Path) -> Tokenizer:
        from headrace_engine.runner.tokenizer import Tokenizer as ModelTokenizer  # noqa: PLC0415 - 0.1 s

        return ModelTokenizer.load(directory, chat_template=self._errand.config.chat_template)

    def end(self, timeout_s: float) -> str | None:
        if self._child is None:
            return None
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            return None
        return _cause(code)

    def _instruct(self, child: "subprocess.Popen[bytes]") -> None:
        """One that is gone already is noticed by the link."""
        assert child.stdin is not None
        with contextlib.suppress(OSError), child.stdin:
            child.stdin.write(self._errand.dump())


def _cause(code: int) -> str | None:
    if code >= 0:
        return None if code == 0 else f"it ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = "; most often the kernel, for want of memory" if -code == signal.SIGKILL else ""
    return f"it was killed by {name}{hint}"

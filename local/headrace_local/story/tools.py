"""kubectl and helm on one cluster, as the reader would call them."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace_local.story.failure import StoryFailed


@dataclass(frozen=True, slots=True)
class Tools:
    """The two programs, each bound to one context: nothing here can touch another."""

    kubectl_command: tuple[str, ...]
    helm_command: tuple[str, ...]
    environment: Mapping[str, str]
    typed: str
    """What a reader types for `kubectl_command`."""
    typed_helm: str
    typed_first: str = ""
    """What the reader's shell needs before it, to reach this cluster."""

    def kubectl(self, *arguments: str, stdin: str = "", timeout_s: float = 60.0) -> str:
        """Runs kubectl to its end; its output. Raises `StoryFailed` with what it said."""
        shown = " ".join((self.typed, *arguments))
        return self._run([*self.kubectl_command, *arguments], shown, stdin, timeout_s)

    def helm(self, *arguments: str, timeout_s: float = 240.0) -> str:
        """Runs helm to its end; its output. Raises `StoryFailed` with what it said."""
        return self._run(
            [*self.helm_command, *arguments], " ".join((self.typed_helm, *arguments)), "", timeout_s
        )

    @contextmanager
    def proxy(self, *options: str) -> Iterator[str]:
        """`kubectl proxy` for the length of the block; yields the address that it serves."""
        # Open to whoever holds its address, it must not outlive a story that is killed.
        command = ["setpriv", "--pdeathsig", "TERM", *self.kubectl_command, "proxy", *options]
        # Its errors are those of requests that this process ends; that it does not start is told below.
        child = subprocess.Popen(
            command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert child.stdout is not None  # asked for above
            said = child.stdout.readline().strip()
            if not said.startswith("Starting to serve on "):
                look = f"{self.typed} proxy {' '.join(options)}"
                raise StoryFailed("kubectl proxy to serve", said or "that it ended", look)
            yield said.removeprefix("Starting to serve on ")
        finally:
            child.terminate()
            child.wait()

    def _run(self, command: list[str], shown: str, stdin: str, timeout_s: float) -> str:
        try:
            done = subprocess.run(
                command,
                env=self.environment,
                input=stdin,
                text=True,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StoryFailed(f"`{shown}` to end", f"nothing for {timeout_s:.0f} s", shown) from error
        except FileNotFoundError as error:
            raise StoryFailed(
                f"{command[0]} to be installed", "that it is not", "https://kubernetes.io/docs/tasks/tools"
            ) from error
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
            raise StoryFailed(f"`{shown}` to work", said, shown)
        return done.stdout

"""Where a chapter plays: the cluster's tools, the narrator, the service that it is all about."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headrace_local.story.api import Api
from headrace_local.story.failure import StoryFailed
from headrace_local.story.narrator import Narrator
from headrace_local.story.service import ServiceView
from headrace_local.story.tools import Tools

POLL_INTERVAL_S = 0.25
NAMESPACE = "default"
CHECKOUT = Path(__file__).resolve().parents[3]
EXAMPLE = CHECKOUT / "examples" / "chat.yaml"

T = TypeVar("T")


class Venue(Protocol):
    """A cluster to play on: the local one, or the reader's own."""

    @property
    def tools(self) -> Tools:
        """The programs, on this cluster."""
        ...

    @property
    def manifest(self) -> dict[str, Any]:
        """The InferenceService that is applied."""
        ...

    @property
    def shown_manifest(self) -> str:
        """What the reader would write after `kubectl apply -f`."""
        ...

    @property
    def removal(self) -> str:
        """The command that takes away what was kept."""
        ...

    def chart_values(self) -> list[str]:
        """Values for helm that differ from the chart's own."""
        ...

    def reader_steps(self, base_url: str) -> tuple[list[str], str]:
        """Commands that let the reader's own shell reach the cluster, and the base URL that it then uses."""
        ...

    def address(self, api: Api, namespace: str, name: str) -> AbstractContextManager[str]:
        """The OpenAI base URL of a service, reachable from this process for the length of the block."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """One service on one cluster."""

    venue: Venue
    api: Api
    narrator: Narrator
    namespace: str = NAMESPACE
    name: str = "chat"
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    @property
    def tools(self) -> Tools:
        """The programs, on the venue's cluster."""
        return self.venue.tools

    @property
    def selector(self) -> str:
        """The label selector of the service's pods."""
        return f"headrace.dev/inferenceservice={self.name}"

    def view(self) -> ServiceView | None:
        """The service as it is now."""
        return self.api.service(self.namespace, self.name)

    def look(self, *arguments: str) -> str:
        """A kubectl command for the reader, in the service's namespace, as pasted into a new shell."""
        first = f"{self.tools.typed_first} && " if self.tools.typed_first else ""
        return first + " ".join((self.tools.typed, "-n", self.namespace, *arguments))

    def until(
        self,
        expected: str,
        probe: Callable[[], T | None],
        *,
        timeout_s: float,
        look: str,
        seen: Callable[[], str],
    ) -> T:
        """The first answer of `probe` that is not None.

        Raises:
            StoryFailed: there was none in `timeout_s`; `seen` says what was there instead.
        """
        deadline_s = self.clock() + timeout_s
        while (answer := probe()) is None:
            if self.clock() > deadline_s:
                raise StoryFailed(f"{expected} within {timeout_s:.0f} s", seen(), look)
            self.pause(POLL_INTERVAL_S)
        return answer

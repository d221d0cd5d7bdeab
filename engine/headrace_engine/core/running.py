"""The running requests: those that hold blocks and a slot.

Two lines, so that a step looks at each request once: decodes, with one token to compute and one to sample, in
the order in which their prefills ended; and prefills, with more than that, in order of admission.
"""

from collections.abc import Iterator

from headrace_engine.core.request import Request


class Running:
    """Who runs."""

    def __init__(self) -> None:
        self.decodes: dict[str, Request] = {}
        self.prefills: dict[str, Request] = {}

    def admit(self, request: Request) -> None:
        """Take a request in; it has tokens to compute before it decodes."""
        self.prefills[request.request_id] = request

    def prefilled(self, request: Request) -> None:
        """Its known tokens are computed and the next one is sampled: from now on it decodes."""
        del self.prefills[request.request_id]
        self.decodes[request.request_id] = request

    def remove(self, request: Request) -> None:
        """Let a request go, whatever it was doing."""
        if self.decodes.pop(request.request_id, None) is None:
            del self.prefills[request.request_id]

    def __iter__(self) -> Iterator[Request]:
        yield from self.decodes.values()
        yield from self.prefills.values()

    def __len__(self) -> int:
        return len(self.decodes) + len(self.prefills)

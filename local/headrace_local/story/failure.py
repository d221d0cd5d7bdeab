"""How a story ends that does not come out as told."""


class StoryFailed(Exception):  # noqa: N818 - it is said of the story, and read as a sentence
    """Something expected did not happen; `look` is the command that shows more."""

    def __init__(self, expected: str, seen: str, look: str) -> None:
        super().__init__(f"expected {expected}; saw {seen}; look closer with: {look}")
        self.expected = expected
        self.seen = seen
        self.look = look

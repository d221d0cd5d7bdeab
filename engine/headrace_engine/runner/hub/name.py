"""`hf://org/name[@revision]`, taken apart."""

import re
from dataclasses import dataclass

from headrace_engine.runner.errors import ModelLoadError

_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_URI = re.compile(
    rf"hf://(?P<org>{_SEGMENT})/(?P<name>{_SEGMENT})(?:@(?P<revision>[A-Za-z0-9._/-]{{1,200}}))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubName:
    """A model on the hub. `revision` is a branch, a tag or a commit."""

    org: str
    name: str
    revision: str

    @classmethod
    def parse(cls, uri: str) -> "HubName":
        """Raises:
        ModelLoadError: it is written otherwise.
        """
        found = _URI.fullmatch(uri)
        if found is None or ".." in uri:
            raise ModelLoadError(f"{uri!r:.200} is no model: write hf://ORG/NAME or hf://ORG/NAME@REVISION")
        return cls(found["org"], found["name"], found["revision"] or "main")

    @property
    def repository(self) -> str:
        return f"{self.org}/{self.name}"

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a whole commit: nobody can put other files under that name."""
        return _COMMIT.fullmatch(self.revision) is not None

    def at(self, commit: str) -> "HubName":
        """The same model, pinned.

        Raises:
            ModelLoadError: what the hub calls a commit is none.
        """
        if _COMMIT.fullmatch(commit) is None:
            raise ModelLoadError(f"the hub names {commit!r:.80} as the commit of {self}, which is none")
        return HubName(self.org, self.name, commit)

    @property
    def directory(self) -> str:
        """The name of a pinned model in the models directory."""
        return f"{self.org}--{self.name}@{self.revision[:12]}"

    def __str__(self) -> str:
        return f"hf://{self.repository}@{self.revision}"

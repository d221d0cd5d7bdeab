"""Where an engine finds what it checks callers of the admin port against.

A part of the configuration, which the core's process has too: nothing of HTTP or of signatures comes with it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.server.named import named

LEAST_TOKEN_CHARACTERS = 43
"""256 bits in base64."""


@dataclass(frozen=True, slots=True)
class AdminCredentials:
    """Both files are read at each call."""

    public_keys: Path | None = None
    token_file: Path | None = None
    pod_uid: str | None = None

    @property
    def given(self) -> bool:
        """Without either nobody could call, so the port is not opened."""
        return self.public_keys is not None or self.token_file is not None

    def token(self) -> str | None:
        """What the token file holds."""
        return None if self.token_file is None else self.token_file.read_text().strip()

    def check(self) -> None:
        """Raises `ValueError` for files that could never let anyone in."""
        if self.public_keys is not None:
            if not self.pod_uid:
                raise ValueError("signed admin calls are for one pod: set --pod-uid with --admin-public-keys")
            from headrace_engine.server.signed_call import load_keys  # noqa: PLC0415 - only where it is checked

            with named(self.public_keys):
                load_keys(json.loads(self.public_keys.read_text()))
        if self.token_file is not None:
            with named(self.token_file):
                if len(self.token() or "") < LEAST_TOKEN_CHARACTERS:
                    raise ValueError(f"an admin token has {LEAST_TOKEN_CHARACTERS} characters or more")

"""A model's chat template, rendered in a process of its own.

The template comes with the model and its author may be anyone. Jinja's sandbox keeps it from reaching Python,
but not from computing for ever or making a string of gigabytes; so it runs in a child with little memory, a
second of processor time for each rendering, and a bound on what it returns. A child that exceeds them is
ended by the kernel; that conversation is refused, and the next one gets a new child. It is tried when it is
loaded: a template that fails on one plain message refuses the model.
"""

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import file_in, read_json_if_there

LENGTH = struct.Struct("<I")
_MAX_TEMPLATE_CHARACTERS = 256 * 1024
_WORKER = "headrace_engine.runner.template_worker"
_CANNED = ({"role": "user", "content": "Hello"},)
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ")


class ChatTemplateError(ValueError):
    """A conversation that the model's template does not take; the message is the template's own reason."""


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The template's text, and the control strings that it may name (`bos_token` and so on)."""

    text: str
    tokens: Mapping[str, str]

    @classmethod
    def read(cls, directory: Path, given: Path | None = None) -> "TemplateSource | None":
        """The `given` file, which may stand anywhere, else `chat_template.jinja`, else the one in
        `tokenizer_config.json`, else None.

        Raises:
            ModelLoadError: a file that cannot be read, or a template that is too long.
        """
        config = read_json_if_there(directory, "tokenizer_config.json")
        text = _default(config.get("chat_template"))
        path = given
        if path is None and (directory / "chat_template.jinja").exists():
            path = file_in(directory, "chat_template.jinja")
        if path is not None:
            text = _text_of(path)
        if not isinstance(text, str):
            return None
        if len(text) > _MAX_TEMPLATE_CHARACTERS:
            raise ModelLoadError(f"the chat template is longer than {_MAX_TEMPLATE_CHARACTERS} characters")
        return cls(text, _token_strings(config))


class ChatTemplate:
    """A template and its child process. Safe to use from several threads; renders one at a time."""

    def __init__(self, source: TemplateSource) -> None:
        """Starts the child and tries the template.

        Raises:
            ModelLoadError: it is no Jinja, or it refuses the plainest conversation.
        """
        self._source = source
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self.render(_CANNED)
        except ChatTemplateError as error:
            self.close()
            raise ModelLoadError(f"{error}; correct chat_template.jinja or tokenizer_config.json") from error

    def render(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """The conversation as one text.

        Raises:
            ChatTemplateError: the template refuses it, or exceeds its limits.
        """
        with self._lock:
            answer = self._ask({"messages": messages, **variables})
        if (reason := answer.get("error")) is not None:
            raise ChatTemplateError(f"the model's chat template refuses these messages: {reason}")
        return str(answer["text"])

    def close(self) -> None:
        """Ends the child; a later rendering starts another."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        child = self._running_child()
        try:
            send(child.stdin, variables)
            answer = receive(child.stdout)
        except OSError:
            answer = None
        if answer is None:
            self.close()
            raise ChatTemplateError("the model's chat template takes too much time or memory")
        return answer

    def _running_child(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                [sys.executable, "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            )
            send(self._child.stdin, {"template": self._source.text, "tokens": dict(self._source.tokens)})
        return self._child


def send(pipe: BinaryIO | Any, document: Mapping[str, Any]) -> None:
    """Writes one JSON document, its length in front."""
    data = json.dumps(document).encode()
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO | Any) -> dict[str, Any] | None:
    """Reads one document; None when the other side is gone."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    data = pipe.read(LENGTH.unpack(head)[0])
    return json.loads(data) if len(data) == LENGTH.unpack(head)[0] else None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"the chat template {path} cannot be read: {error}") from error


def _default(templates: Any) -> Any:
    """Some models bring several templates, by name."""
    if isinstance(templates, list):
        by_name = {entry.get("name"): entry.get("template") for entry in templates if isinstance(entry, dict)}
        return by_name.get("default")
    return templates


def _token_strings(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in _TOKEN_NAMES:
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found

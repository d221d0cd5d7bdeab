"""A model's chat template: Jinja in its immutable sandbox.

The template comes with the model and its author may be anyone. The sandbox keeps it from reaching Python;
operators that grow a value without bound are refused, and so is output out of proportion. It is rendered once
when it is loaded: a template that fails on two plain messages refuses the model.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.model_directory import file_in, read_json_if_there

_MAX_TEMPLATE_CHARACTERS = 256 * 1024
_MAX_REPEATED_CHARACTERS = 64 * 1024
_CANNED = [{"role": "user", "content": "Hello"}]
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplateError(ValueError):
    """A conversation that the model's template does not take; the message is the template's own reason."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Refuses the operators by which a short template makes a huge string."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*" and not (isinstance(left, int | float) and isinstance(right, int | float)):
            sized, count = (left, right) if not isinstance(left, int) else (right, left)
            if not isinstance(count, int) or len(sized) * count > _MAX_REPEATED_CHARACTERS:
                raise TemplateError("a repetition makes too large a value")
        elif operator == "**" and (abs(left) > 1000 or abs(right) > 10):
            raise TemplateError("a power makes too large a value")
        elif operator == "%" and isinstance(left, str):
            raise TemplateError("formatting with % is not allowed")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """A template that was parsed, and the token strings that it may name."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        """Parses the template and tries it.

        Raises:
            ModelLoadError: too long, no Jinja, or it refuses the plainest conversation.
        """
        if len(source) > _MAX_TEMPLATE_CHARACTERS:
            raise ModelLoadError(f"the chat template is longer than {_MAX_TEMPLATE_CHARACTERS} characters")
        environment = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        self._tokens = dict(tokens)
        try:
            self._template = environment.from_string(source)
            self.render(_CANNED)
        except (TemplateError, ChatTemplateError) as error:
            raise ModelLoadError(
                f"the chat template cannot be used ({error}); fix chat_template.jinja"
            ) from error

    @classmethod
    def load(cls, directory: Path) -> "ChatTemplate | None":
        """The template of a model: `chat_template.jinja`, else the one in `tokenizer_config.json`, else None.

        Raises:
            ModelLoadError: there is one and it cannot be used.
        """
        config = read_json_if_there(directory, "tokenizer_config.json")
        if (directory / "chat_template.jinja").exists():
            source: Any = file_in(directory, "chat_template.jinja").read_text(encoding="utf-8")
        else:
            source = _default(config.get("chat_template"))
        return cls(source, _token_strings(config)) if isinstance(source, str) else None

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The conversation as one text.

        Raises:
            ChatTemplateError: the template refuses it.
        """
        names = {
            **variables,
            **self._tokens,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(names)
        except (
            TemplateError,
            TypeError,
            ValueError,
            KeyError,
            IndexError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise ChatTemplateError(f"the model's chat template refuses these messages: {error}") from error


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


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)

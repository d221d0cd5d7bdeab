"""The child that renders one model's chat template: Jinja's immutable sandbox, under limits of the kernel.

Reads documents from standard input (first the template, then conversations), answers each on standard output,
and ends when the input does.
"""

import json
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace_engine.runner.chat_template import receive, send

_MEMORY_BYTES = 256 << 20
_CPU_S = 1.0
_SPARE_CHARACTERS = 64 * 1024


def main() -> None:
    """Serves until the parent is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's, meant for the engine, which may drain
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    first = receive(requests)
    if first is None:
        return
    template, error = compile_template(first["template"])
    while (variables := receive(requests)) is not None:
        answer = (
            {"error": error}
            if template is None
            else render_template(template, {**variables, **first["tokens"]})
        )
        send(answers, answer)


def compile_template(source: str) -> tuple[Template | None, str]:
    """The template, or None and why it is none."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    try:
        with _little_time():  # constants are computed here
            return environment.from_string(source), ""
    except Exception as error:  # noqa: BLE001 - as below
        return None, _reason(error)


def render_template(template: Template, variables: Mapping[str, Any]) -> dict[str, str]:
    """The `text`, or the `error` that the template raised."""
    most = 2 * len(json.dumps(variables)) + _SPARE_CHARACTERS
    try:
        with _little_time():
            text = template.render(variables)
    except Exception as error:  # noqa: BLE001 - whatever the template did, it is the template's failure
        return {"error": _reason(error)}
    return {"text": text} if len(text) <= most else {"error": "the text grows out of proportion"}


@contextmanager
def _little_time() -> Iterator[None]:
    """Beyond it the signal's own action ends the process: nothing that a template does can catch it."""
    signal.setitimer(signal.ITIMER_PROF, _CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _reason(error: BaseException) -> str:
    return (
        f"{type(error).__name__}: {error}"[:400] if not isinstance(error, TemplateError) else str(error)[:400]
    )


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


if __name__ == "__main__":
    main()

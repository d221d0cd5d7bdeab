"""`headrace generate`: tokens from a model without a server, on the server's own step loop."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace_engine.offline import LLM, SamplingParams

MODEL, SAMPLING = "Model", "Sampling"


def generate(
    model: Annotated[str, typer.Argument(help="A directory, or a name that `headrace models list` shows.")],
    *,
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", help="May be repeated. Standard input is the prompt if left out."),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask as a user in a conversation, by the model's template.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=SAMPLING, help="Most tokens generated.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, max=2, rich_help_panel=SAMPLING, help="0 is greedy.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            rich_help_panel=SAMPLING,
            help="Draw from the likeliest tokens that together have this probability.",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=-1, rich_help_panel=SAMPLING, help="Draw from so many of the likeliest tokens; 0 or -1: all."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(rich_help_panel=SAMPLING, help="Equal seeds give equal tokens.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(rich_help_panel=SAMPLING, help="Ends the output; may be repeated.")
    ] = None,
    dtype: Annotated[str, typer.Option(rich_help_panel=MODEL, help="auto, float32 or bfloat16.")] = "auto",
    max_model_len: Annotated[
        int | None,
        typer.Option(min=2, rich_help_panel=MODEL, help="Longest sequence; the model's own if left out."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=MODEL, help="Compute threads.")
    ] = None,
) -> None:
    """Continue a prompt with MODEL, or answer it, as text on standard output.

    One prompt is written as it grows, several as whole lines of JSON, in their order.
    """
    prompts = prompt or [sys.stdin.read()]
    from headrace_engine.offline import LLM, EngineFailed, RequestRefused, SamplingParams
    from headrace_engine.runner.errors import ModelLoadError

    params = SamplingParams(
        max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, stop=stop or None
    )
    try:
        with LLM(model, dtype=dtype, max_model_len=max_model_len, threads=threads) as llm:
            _write(llm, prompts, params, is_chat=chat)
    except (ModelLoadError, RequestRefused, EngineFailed) as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(1) from error


def _write(llm: "LLM", prompts: list[str], params: "SamplingParams", *, is_chat: bool) -> None:
    conversations = [[{"role": "user", "content": prompt}] for prompt in prompts]
    if len(prompts) == 1:
        for piece in llm.stream(conversations[0] if is_chat else prompts[0], params):
            print(piece, end="", flush=True)  # noqa: T201
        print()  # noqa: T201
        return
    answers = llm.chat(conversations, params) if is_chat else llm.generate(prompts, params)
    for prompt, answer in zip(prompts, answers, strict=True):
        output = answer.outputs[0]
        line = {"prompt": prompt, "text": output.text, "finish_reason": output.finish_reason}
        print(json.dumps(line, ensure_ascii=False))  # noqa: T201

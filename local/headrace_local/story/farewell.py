"""The last chapter: what the reader can go on with."""

import json

from headrace_local.story.chat import Chatted
from headrace_local.story.stage import Stage


def farewell(stage: Stage, chatted: Chatted) -> None:
    """Tells commands that work as they stand."""
    narrator, model = stage.narrator, chatted.model
    steps, base_url = stage.venue.reader_steps(chatted.base_url)
    narrator.chapter("Go on from here")
    for step in steps:
        narrator.command(step)
    for arguments in (
        ("get", "infs", "-w"),
        ("describe", "infs", stage.name),
        ("explain", "infs.spec.slo"),
        ("get", "infs", stage.name, "-o", "jsonpath='{.status.decision}'"),
    ):
        narrator.command(" ".join((stage.tools.typed, *arguments)))
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello!"}], "stream": True})
    narrator.command(f"curl -N {base_url}/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    narrator.command(
        f"headrace bench --base-url {base_url} --rate 1 --duration 30s --ttft-slo 2s --itl-slo 250ms"
    )
    narrator.tell("from openai import OpenAI")
    narrator.tell(f"client = OpenAI(base_url={base_url!r}, api_key='none')")
    narrator.tell(
        f"client.chat.completions.create(model={model!r}, messages=[{{'role': 'user', 'content': 'Hello!'}}])"
    )

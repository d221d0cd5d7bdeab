"""The last chapter: what the reader can go on with."""

import json

from headrace_local.story.chat import Chatted
from headrace_local.story.stage import Stage

MESSAGES = [{"role": "user", "content": "Hello!"}]
PYTHON = """\
.venv/bin/python <<'PY'
from openai import OpenAI
client = OpenAI(base_url={base_url!r}, api_key="none")
print(client.chat.completions.create(model={model!r}, messages={messages!r}).choices[0].message.content)
PY"""


def farewell(stage: Stage, chatted: Chatted) -> None:
    """Tells commands that work as they stand, pasted into a shell in the checkout."""
    narrator, model = stage.narrator, chatted.model
    steps, base_url = stage.venue.reader_steps(chatted.base_url)
    narrator.chapter("Go on from here, in this directory")
    for step in steps:
        narrator.paste(step)
    for arguments in (
        ("get", "infs", "-w"),
        ("describe", "infs", stage.name),
        ("explain", "infs.spec.slo"),
        ("get", "infs", stage.name, "-o", "jsonpath='{.status.decision}'"),
    ):
        narrator.paste(" ".join((stage.tools.typed, *arguments)))
    body = json.dumps({"model": model, "messages": MESSAGES, "stream": True})
    narrator.paste(f"curl -N {base_url}/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    narrator.paste(PYTHON.format(base_url=base_url, model=model, messages=MESSAGES))
    goals = "--ttft-slo 2s --itl-slo 250ms"
    narrator.paste(f".venv/bin/headrace bench --base-url {base_url} --rate 1 --duration 30s {goals}")
    narrator.tell(f"To be rid of it all: {stage.venue.removal}")

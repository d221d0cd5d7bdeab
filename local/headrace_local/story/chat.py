"""Chapter: an answer is streamed through the Service by the official OpenAI client."""

from dataclasses import dataclass

import httpx
import openai

from headrace_local.story.failure import StoryFailed
from headrace_local.story.stage import Stage

QUESTION = "Explain in two sentences why the sky is blue."
MAX_TOKENS = 60


@dataclass(frozen=True, slots=True)
class Chatted:
    """The streamed answer: where it came from, its text and pieces, and how soon the first of them came."""

    base_url: str
    model: str
    text: str
    pieces: int
    ttft_s: float
    finish_reason: str | None


def chat(stage: Stage, base_url: str) -> Chatted:
    """Asks one question and tells the answer as it comes."""
    stage.narrator.chapter("A chat, by the official openai client")
    look = f"curl {base_url}/models"
    try:
        client = openai.OpenAI(
            base_url=base_url,
            api_key="unused",
            http_client=openai.DefaultHttpxClient(event_hooks={"request": [_drop_key]}),
            max_retries=0,
            timeout=60,
        )
        model = client.models.list().data[0].id
        stage.narrator.tell(f"{base_url} serves {model}; asking: {QUESTION}")
        return _stream(stage, client, base_url, model)
    except openai.OpenAIError as error:
        raise StoryFailed("a streamed answer", f"{type(error).__name__}: {error}", look) from error


def _drop_key(request: httpx.Request) -> None:
    """Through kubectl's proxy, an Authorization header would be taken for Kubernetes' own."""
    request.headers.pop("authorization", None)


def _stream(stage: Stage, client: openai.OpenAI, base_url: str, model: str) -> Chatted:
    asked_s = stage.clock()
    first_s, pieces, finish_reason = None, [], None
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=MAX_TOKENS,
        temperature=0,
        stream=True,
    )
    for chunk in stream:
        for choice in chunk.choices:
            finish_reason = choice.finish_reason or finish_reason
            if choice.delta.content:
                first_s = stage.clock() if first_s is None else first_s
                pieces.append(choice.delta.content)
                stage.narrator.stream(choice.delta.content)
    stage.narrator.stream_end()
    if first_s is None:
        look = stage.look("logs", "-l", stage.selector)
        raise StoryFailed("an answer with text", f"an empty one (finish_reason {finish_reason})", look)
    ttft_s = first_s - asked_s
    stage.narrator.news(f"{len(pieces)} pieces, the first after {ttft_s * 1000:.0f} ms")
    return Chatted(base_url, model, "".join(pieces), len(pieces), ttft_s, finish_reason)

"""A real HTTP server that misbehaves as told."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

import orjson
import pytest


class ScriptedServer:
    """Answers each chat with the next script, the last one again and again; lists one model."""

    def __init__(self):
        self.scripts = deque()
        self.bodies = []
        self.open = self.most_open = 0

    async def __call__(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        body = await reader.readexactly(length)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if head.startswith(b"GET"):
                await respond(200, orjson.dumps({"data": [{"id": "tiny"}]}))(writer)
            else:
                self.bodies.append(orjson.loads(body))
                await (self.scripts.popleft() if len(self.scripts) > 1 else self.scripts[0])(writer)
        except ConnectionError:
            pass  # the client went, as some tests make it
        finally:
            self.open -= 1
            writer.close()


def respond(status, body, **headers):
    """A plain response."""

    async def script(writer):
        lines = [
            f"HTTP/1.1 {status} x",
            f"Content-Length: {len(body)}",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return script


def stream(*texts, finish="stop", done=True, rude=False, error=None, gap_s=0.0):
    """A chunked event stream; `rude` cuts the connection where the last chunk should be."""
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    ]
    events += [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts
    ]
    if error:
        events.append({"error": {"message": error}})
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": len(texts) + 1}})
    wire = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events] + (
        [b"data: [DONE]\n\n"] if done else []
    )

    async def script(writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for event in wire:
            await asyncio.sleep(gap_s)
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
        if not rude:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return script


@pytest.fixture
def serving():
    """`async with serving(script, ...) as (server, base_url)`."""

    @asynccontextmanager
    async def start(*scripts):
        server = ScriptedServer()
        server.scripts.extend(scripts)
        async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            yield server, f"http://127.0.0.1:{port}/v1"

    start.respond, start.stream = respond, stream
    return start

"""Requests that no client sends, by a grammar: bodies with one thing wrong or many, and HTTP too."""

import json
import string
from dataclasses import dataclass

from attacked_server import MODEL, post
from hypothesis import strategies as st

from headrace_engine.server.neutral import CHAT, COMPLETION
from headrace_engine.server.parameters import ChatParameters, CompletionParameters
from headrace_engine.server.tokenize_parameters import Detokenize, TokenizeText

Pairs = list[tuple[str, str]]
"""An object of JSON, its keys and values written out: so it may hold what no parser gives."""

SHORT: Pairs = [("max_tokens", "1"), ("stop_token_ids", json.dumps(list(range(33, 94))))]
"""Ends an answer after its first token in two ways, so that either may become wild."""
BASES: dict[str, Pairs] = {
    "/v1/chat/completions": [("messages", '[{"role":"user","content":"a"}]'), *SHORT],
    "/v1/completions": [("prompt", '"a"'), *SHORT],
    "/tokenize": [("prompt", '"a"')],
    "/detokenize": [("tokens", "[1]")],
}
NAMES: dict[str, list[str]] = {
    "/v1/chat/completions": sorted(ChatParameters.model_fields.keys() | CHAT.keys()),
    "/v1/completions": sorted(CompletionParameters.model_fields.keys() | COMPLETION.keys()),
    "/tokenize": sorted(TokenizeText.model_fields),
    "/detokenize": sorted(Detokenize.model_fields),
}

LITERALS = [
    *("null", "true", "false", "0", "-0", "1", "-1", "1.0", "1.5", "-1.5", "1e0", "1e-400"),
    *("1e400", "-1e400", "NaN", "Infinity", "-Infinity", "9" * 400, "-" + "9" * 30, "0." + "3" * 400),
    *("2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *(
        '""',
        '"a"',
        '" "',
        '"1"',
        '"true"',
        '"NaN"',
        '"\\u0000"',
        '"\\ud800"',
        '"a\\udfffb"',
        '"\\ud83d\\ude00"',
    ),
    *("[]", "{}", "[[]]", "[{}]", "[null]", '[""]', "[1.5]", "[true]", '["a",1]', '{"a":1,"a":2}', '{"":{}}'),
    *(
        '{"type":"text"}',
        '[{"role":"user"}]',
        '[{"role":"user","content":[{"type":"text"}]}]',
        '{"__proto__":1}',
    ),
]
DEPTHS = (5, 60, 63, 64, 65, 1000)


def written(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def nested(depth: int, inside: str) -> str:
    half = depth // 2
    return '{"a":' * half + "[" * (depth - half) + inside + "]" * (depth - half) + "}" * half


texts = st.text(st.characters(codec="utf-8"), max_size=30)
scalars = st.one_of(
    st.sampled_from(LITERALS),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(json.dumps),
    texts.map(written),
    st.tuples(texts, st.integers(200, 9000)).map(lambda pair: written((pair[0] or "a") * pair[1])),
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=6).map(lambda items: f"[{','.join(items)}]"),
    st.tuples(scalars, st.integers(60, 3000)).map(
        lambda pair: f"[{','.join([pair[0][:40] or '1'] * pair[1])}]"
    ),
    st.lists(st.tuples(texts.map(written), scalars), max_size=6).map(
        lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
    ),
    st.builds(nested, st.sampled_from(DEPTHS), scalars),
)


@dataclass(frozen=True)
class WildBody:
    """`name`: the one parameter that is not as it should be; None where anything may be wrong."""

    path: str
    content: bytes
    name: str | None = None

    @property
    def request(self) -> bytes:
        return post(self.content, path=self.path)


def _body(path: str, pairs: Pairs) -> str:
    whole = [("model", written(MODEL)), *pairs]
    return "{" + ",".join(f"{written(key)}:{value}" for key, value in whole) + "}"


@st.composite
def one_wild_parameter(draw: st.DrawFn) -> WildBody:
    """A body that is right but for one parameter, which may be one that there is not."""
    path = draw(st.sampled_from(sorted(BASES)))
    name = draw(st.sampled_from(NAMES[path]) | texts.filter(lambda text: text.strip() == text != ""))
    pairs = [pair for pair in BASES[path] if pair[0] != name] + [(name, draw(values))]
    body = _body(path, pairs)
    if name == "model":
        body = body.replace(f'"model":{written(MODEL)},', "", 1)
    return WildBody(path, body.encode("utf-8", "surrogatepass"), name)


@st.composite
def wild_bodies(draw: st.DrawFn) -> WildBody:
    """Several wild parameters, keys twice, and then what a bad wire does to a body."""
    path = draw(st.sampled_from(sorted(BASES)))
    extra = draw(st.lists(st.tuples(st.sampled_from(NAMES[path]) | texts, values), max_size=5))
    content = _body(path, BASES[path] + extra).encode("utf-8", "surrogatepass")
    match draw(st.sampled_from(["whole", "cut", "junk", "mark", "utf-16", "bytes", "list", "spliced"])):
        case "cut":
            content = content[: draw(st.integers(0, len(content)))]
        case "junk":
            content += draw(st.binary(min_size=1, max_size=20))
        case "mark":
            content = b"\xef\xbb\xbf" + content
        case "utf-16":
            content = content.decode("utf-8", "replace").encode("utf-16")
        case "bytes":
            content = draw(st.binary(max_size=200))
        case "list":
            content = b"[" + content + b"]"
        case "spliced":
            at = draw(st.integers(0, len(content)))
            content = content[:at] + draw(st.binary(max_size=5)) + content[at:]
    return WildBody(path, content)


# --- HTTP ---------------------------------------------------------------------------------------------------

TOKENS = string.ascii_letters + string.digits + "-_"
WRONG_TARGETS = ["/v1/models", "/v1/models/%2e%2e%2f", "/%00", "//", "*", "http://x/livez", ""]
WRONG_METHODS = ["HEAD", "OPTIONS", "CONNECT", "PUT", "get", "G\x00T", "X" * 300]
WRONG_VERSIONS = ["HTTP/1.0", "HTTP/1.12", "http/1.1", ""]
BODY = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 1}).encode()
SIZES = ["0", "5", str(len(BODY)), "007", "-1", "+3", "5, 5", "1e3", "99999999999999999999", "", " "]
CODINGS = ["chunked", "CHUNKED", "chunked, chunked", "gzip, chunked", "\x0bchunked", "chunked;q=1"]
CHUNK_SIZES = [
    *("{:x}", "{:X}", "000000{:x}", "{:x};a=b", '{:x};a="b\r\n"', "+{:x}", "0x{:x}", "{:x} "),
    "ffffffffffffffff{:x}",
]


def mostly(right: str, *wrong: str) -> st.SearchStrategy[str]:
    """What is right thirty times as often: else a request would seldom be read past its first line."""
    return st.sampled_from([right] * 30 * len(wrong) + list(wrong))


ends = mostly("\r\n", "\n", "\r", "\r\n ", "\r\n\t")
lines = st.one_of(
    st.sampled_from(["Host: x", "Host: y", "host: x/livez?", "Host:", "Host: a, b", "Connection: close"]),
    st.sampled_from(
        ["Content-Type: application/json", "Expect: 100-continue", "Upgrade: h2c", "TE: trailers"]
    ),
    st.sampled_from(SIZES).map("Content-Length: {}".format),
    st.sampled_from(CODINGS).map("Transfer-Encoding: {}".format),
    st.tuples(st.text(TOKENS, max_size=8), st.text(max_size=20)).map(": ".join),
    st.tuples(st.text(max_size=5), st.integers(0, 3000)).map(lambda pair: "X: " + pair[0] * pair[1]),
    st.sampled_from(["X" * 70_000 + ": y", "no colon", "Content-Length : 5", ": x", "X-\x00: y", "a b: c"]),
)


def _chunks(pieces: list[bytes], style: str) -> bytes:
    """A body in chunks, each written as `style` would."""
    return b"".join(f"{style.format(len(p))}\r\n".encode() + p + b"\r\n" for p in pieces) + b"0\r\n\r\n"


bodies = st.one_of(
    st.just(BODY),
    st.binary(max_size=40),
    st.builds(
        _chunks,
        st.lists(st.binary(max_size=9) | st.just(BODY), max_size=5),
        st.sampled_from(CHUNK_SIZES),
    ),
    st.just(_chunks([bytes([byte]) for byte in BODY], "{:x}")),
)


@dataclass(frozen=True)
class WildConnection:
    """What is sent on one connection, in pieces; then nothing more comes."""

    pieces: tuple[bytes, ...]


@st.composite
def wild_connections(draw: st.DrawFn) -> WildConnection:
    sent = b""
    for _ in range(draw(st.integers(1, 3))):
        body = draw(st.none() | bodies)
        method = draw(mostly("GET" if body is None else "POST", *WRONG_METHODS))
        target = draw(mostly("/livez" if body is None else "/v1/completions", *WRONG_TARGETS))
        head = [f"{method} {target} {draw(mostly('HTTP/1.1', *WRONG_VERSIONS))}", draw(mostly("Host: x", ""))]
        head += draw(st.lists(lines, max_size=draw(st.sampled_from([0, 0, 1, 2]))))
        if body is not None:
            framing = (
                "Transfer-Encoding: chunked"
                if body.endswith(b"0\r\n\r\n")
                else f"Content-Length: {len(body)}"
            )
            head += ["Content-Type: application/json", draw(mostly(framing, "Content-Length: 5"))]
        head += ["X: y"] * draw(st.sampled_from([0] * 20 + [60, 500]))
        text = "".join(line + draw(ends) for line in head if line) + "\r\n"
        sent += text.encode("utf-8", "surrogatepass") + (body or b"")
    sent = sent[: draw(st.sampled_from([len(sent)] * 9 + [len(sent) // 2, len(sent) - 1]))]
    size = draw(st.sampled_from([len(sent) or 1, 1 + len(sent) // 3, 1 + len(sent) // 50]))
    return WildConnection(tuple(sent[at : at + size] for at in range(0, len(sent), size)))

"""Bodies of up to 8 MiB made by chance, of what makes parsers, validators and tokenizers slow or large."""

import random

from attacked_server import MODEL, post

MOST_BYTES = 8 << 20
PATHS = ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize")
NAMES = (
    *("prompt", "messages", "stop", "stop_token_ids", "logit_bias", "bad_words", "allowed_token_ids", "x"),
    *("tools", "metadata", "response_format", "user", "stream_options", "chat_template_kwargs", "tokens"),
)
ATOMS = (
    *(b"1", b"-1", b"1.5", b"9223372036854775807", b"1e-300", b"null", b"[]", b"{}", b'{"a":1}', b"[1,2]"),
    *(b'""', b'"a"', b'"\\u6f22"', b'"\\ud83d\\ude00"', '"漢"'.encode(), b'"<|im_end|>"', b'"a b c d"'),
    *(b'{"type":"text","text":"a"}', b'{"role":"user","content":"a"}'),
)
PIECES = (b"a", b" ", b"\\n", b"\\u6f22", "漢".encode(), b'\\"', b"<|im_end|>", b"\\ud83d\\ude00", b"hello ")


def flat_list(chance: random.Random, most_bytes: int) -> bytes:
    atoms = chance.choices(ATOMS, k=chance.randint(1, 4))
    most = most_bytes // (sum(map(len, atoms)) + len(atoms))
    return b"[%b]" % b",".join(atoms * max(1, min(most, chance.choice([25, 1000, 80_000]))))


def flat_object(chance: random.Random, most_bytes: int) -> bytes:
    atom = chance.choice(ATOMS)
    count = min(most_bytes // (len(atom) + 10), chance.choice([100, 4000, 70_000]))
    return b"{%b}" % b",".join(b'"%d":%b' % (name, atom) for name in range(count))


def long_text(chance: random.Random, most_bytes: int) -> bytes:
    piece = chance.choice(PIECES)
    return b'"%b"' % (piece * (min(most_bytes, chance.choice([1000, 500_000, MOST_BYTES])) // len(piece)))


def nested(chance: random.Random, most_bytes: int) -> bytes:
    depth, inner = chance.randint(1, 62), chance.choice(ATOMS)
    one = b"[" * depth + inner + b"]" * depth
    return b"[%b]" % b",".join(
        [one] * max(1, min(most_bytes // (len(one) + 1), chance.choice([1, 1000, 5000])))
    )


def body(chance: random.Random) -> bytes:
    parts, left = [b'"model":"%b"' % MODEL.encode()], MOST_BYTES - 256
    for name in chance.sample(NAMES, chance.randint(1, 3)):
        make = chance.choice([flat_list, flat_list, flat_object, long_text, long_text, nested])
        parts.append(b'"%b":%b' % (name.encode(), make(chance, left // 2)))
        left -= len(parts[-1]) + 1
    return b"{%b}" % b",".join(parts)


def request(chance: random.Random) -> bytes:
    """A whole request for one of the routes that take a body."""
    return post(body(chance), path=chance.choice(PATHS))

"""`continue_final_message`: the prompt ends with the last message's text, as `transformers` would end it."""

import shutil

import pytest
from transformers import AutoTokenizer

from headrace_engine.runner.chat_template import ChatTemplateError
from headrace_engine.runner.tokenizer import Tokenizer

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMMING = CHATML.replace("message.content", "message.content | trim")
SILENT = "{% for message in messages[:1] %}{{ message.content }}{% endfor %}"


@pytest.fixture(scope="module")
def tokenizer_of(tiny_model_dir, tmp_path_factory):
    def make(template):
        directory = tmp_path_factory.mktemp("model")
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            shutil.copy(tiny_model_dir / name, directory)
        (directory / "chat_template.jinja").write_text(template)
        return directory

    return make


@pytest.mark.parametrize("template", [CHATML, TRIMMING])
@pytest.mark.parametrize("content", ["The river", "The river ", "The river\n\n", "A <|im_end|> B", "x"])
def test_it_ends_where_transformers_ends_it(tokenizer_of, template, content):
    directory = tokenizer_of(template)
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": content}]
    ours = Tokenizer.load(directory)
    ids = ours.apply_chat_template(messages, add_generation_prompt=False, continue_final_message=True)
    theirs = AutoTokenizer.from_pretrained(directory).apply_chat_template(
        messages, tokenize=False, continue_final_message=True
    )
    assert ours.decode(ids, skip_special_tokens=False) == theirs


def test_control_strings_in_what_is_continued_stay_text(tokenizer_of):
    tokenizer = Tokenizer.load(tokenizer_of(CHATML))
    messages = [{"role": "assistant", "content": "<|im_end|>"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=False, continue_final_message=True)
    end = tokenizer._control["<|im_end|>"]
    assert end not in ids


def test_a_template_without_the_last_message_cannot_be_continued(tokenizer_of):
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    with pytest.raises(ChatTemplateError, match="does not end with the last message"):
        Tokenizer.load(tokenizer_of(SILENT)).apply_chat_template(messages, continue_final_message=True)


def test_variables_reach_the_template_and_cannot_forge_control_tokens(tokenizer_of):
    tokenizer = Tokenizer.load(tokenizer_of("{{ messages[0].content }}{{ mood }}<|im_end|>"))
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], mood="<|im_end|>")
    assert ids.count(tokenizer._control["<|im_end|>"]) == 1
    assert tokenizer.decode(ids, skip_special_tokens=False) == "x<|im_end|><|im_end|>"


def test_tokens_are_spelled_by_their_bytes(tokenizer_of):
    tokenizer = Tokenizer.load(tokenizer_of(CHATML))
    text = "Grüße, 世界 <|im_end|>"
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text
    end = tokenizer._control["<|im_end|>"]
    assert tokenizer.token_bytes(end) == b"<|im_end|>"
    assert tokenizer.token_string(end) == "<|im_end|>"
    assert tokenizer.token_bytes(10**6) == b""
    assert tokenizer.token_string(10**6) == ""


def test_a_stream_can_spell_control_tokens(tokenizer_of):
    tokenizer = Tokenizer.load(tokenizer_of(CHATML))
    ids = [*tokenizer.encode("ab"), tokenizer._control["<|im_end|>"], *tokenizer.encode("世")]
    for skip, expected in ((True, "ab世"), (False, "ab<|im_end|>世")):
        decoder = tokenizer.decoder(skip_special_tokens=skip)
        assert "".join(decoder.push([each]) for each in ids) + decoder.flush() == expected

"""`headrace_engine.LLM`: the server's answers, without the server."""

import subprocess
import sys
import threading

import pytest

from headrace_engine import LLM, SamplingParams
from headrace_engine.offline import EngineFailed, RequestRefused
from headrace_engine.runner.tokenizer import Tokenizer

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(tiny_model_dir):
    with LLM(
        str(tiny_model_dir), threads=1, max_num_seqs=4, max_model_len=128, num_gpu_blocks_override=32
    ) as it:
        yield it


def test_a_prompt_is_continued_the_same_alone_and_in_a_batch(llm) -> None:
    prompts = [f"The number {number} is" for number in range(9)]
    together = llm.generate(prompts, GREEDY)
    alone = [llm.generate(prompt, GREEDY)[0] for prompt in prompts]
    assert [answer.outputs for answer in together] == [answer.outputs for answer in alone]
    assert [answer.prompt for answer in together] == prompts
    assert {len(answer.outputs[0].token_ids) for answer in together} == {12}


def test_ids_are_a_prompt_as_their_text_is(llm, tiny_model_dir) -> None:
    ids = Tokenizer.load(tiny_model_dir).encode("Once upon")
    (by_text,), (by_ids,) = llm.generate("Once upon", GREEDY), llm.generate(ids, GREEDY)
    assert by_text.outputs == by_ids.outputs
    assert by_text.prompt_token_ids == by_ids.prompt_token_ids == tuple(ids)
    assert by_ids.prompt is None


def test_the_text_is_that_of_the_ids(llm, tiny_model_dir) -> None:
    (answer,) = llm.generate("Once upon", GREEDY)
    assert Tokenizer.load(tiny_model_dir).decode(answer.outputs[0].token_ids) == answer.outputs[0].text


def test_each_prompt_may_have_its_own_parameters(llm) -> None:
    lengths = [SamplingParams(max_tokens=count, ignore_eos=True) for count in (1, 5, 3)]
    answers = llm.generate(["a", "b", "c"], lengths)
    assert [len(answer.outputs[0].token_ids) for answer in answers] == [1, 5, 3]
    with pytest.raises(ValueError, match="3 prompts and 2"):
        llm.generate(["a", "b", "c"], lengths[:2])


def test_equal_seeds_give_equal_tokens(llm) -> None:
    params = SamplingParams(seed=7, max_tokens=10, ignore_eos=True)
    first, second = llm.generate(["a b", "a b"], params)
    assert first.outputs == second.outputs


def test_a_stop_string_ends_the_output_and_is_not_part_of_it(llm) -> None:
    (whole,) = llm.generate("Once upon", GREEDY)
    text = whole.outputs[0].text
    stop = text[len(text) // 2 :][:3]
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, stop=stop)
    (stopped,) = llm.generate("Once upon", params)
    output = stopped.outputs[0]
    assert (output.text, output.finish_reason) == (text[: text.index(stop)], "stop")
    assert output.token_ids == whole.outputs[0].token_ids[: len(output.token_ids)]


def test_a_stream_is_the_whole_answer_in_pieces(llm) -> None:
    pieces = list(llm.stream("Once upon", GREEDY))
    assert len(pieces) > 3
    assert "".join(pieces) == llm.generate("Once upon", GREEDY)[0].outputs[0].text


def test_a_stream_that_is_left_leaves_nothing_behind(llm) -> None:
    stream = llm.stream("Once upon", SamplingParams(max_tokens=100, ignore_eos=True))
    next(stream)
    stream.close()
    assert len(llm.generate(["a"] * 9, GREEDY)) == 9


def test_a_conversation_is_answered_by_the_template(llm) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    (alone,) = llm.chat(messages, GREEDY)
    first, second = llm.chat([messages, messages], GREEDY)
    assert alone.outputs == first.outputs == second.outputs
    assert "".join(llm.stream(messages, GREEDY)) == alone.outputs[0].text


@pytest.mark.parametrize(
    ("prompt", "params", "param"),
    [
        ("", SamplingParams(), "prompt"),
        ("a", SamplingParams(temperature=-1), "temperature"),
        ("a", SamplingParams(max_tokens=1000), "max_tokens"),
        ("a " * 400, SamplingParams(), "prompt"),
        ([10**6], SamplingParams(), "prompt"),
        ("a", SamplingParams(stop_token_ids=[10**6]), "stop_token_ids"),
    ],
)
def test_what_the_api_refuses_is_refused_by_name(llm, prompt, params, param) -> None:
    with pytest.raises(RequestRefused) as refused:
        llm.generate([prompt], params)
    assert refused.value.param == param
    assert len(llm.generate("a", GREEDY)) == 1


def test_a_second_call_at_the_same_time_is_refused(llm) -> None:
    stream = llm.stream("Once upon", GREEDY)
    next(stream)
    seen: list[BaseException] = []

    def call() -> None:
        try:
            llm.generate("a", GREEDY)
        except RuntimeError as error:
            seen.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    stream.close()
    assert "one call at a time" in str(seen[0])


def test_a_closed_model_says_so(tiny_model_dir) -> None:
    llm = LLM(str(tiny_model_dir), threads=1, max_model_len=64)
    llm.close()
    llm.close()
    with pytest.raises(EngineFailed, match="was closed"):
        llm.generate("a")


def test_importing_the_package_is_light() -> None:
    code = "import headrace_engine, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pydantic", "fastapi", "tokenizers"} & set(done.stdout.split())


def test_the_command_writes_text_for_one_prompt_and_lines_for_several(tiny_model_dir) -> None:
    command = [sys.executable, "-m", "headrace_cli.main", "generate", str(tiny_model_dir), "--threads", "1"]
    command += ["--temperature", "0", "--max-tokens", "4"]

    def run(*flags: str, text: str = "") -> str:
        done = subprocess.run([*command, *flags], input=text, capture_output=True, text=True, check=True)
        return done.stdout

    by_flag = run("--prompt", "Once upon")
    assert by_flag == run(text="Once upon")
    lines = run("--prompt", "Once upon", "--prompt", "There was").splitlines()
    assert [line.startswith('{"prompt": ') for line in lines] == [True, True]

"""What a model's author may do with a chat template, and what not: reach Python, or cost too much."""

import pytest

from headrace_engine.runner.chat_template import ChatTemplate, ChatTemplateError, TemplateSource
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.template_worker import compile_template, render_template
from headrace_engine.runner.tokenizer import Tokenizer

MESSAGE = {"role": "user", "content": "Hello"}


def render(source, messages=(MESSAGE,), **variables):
    with ChatTemplate(TemplateSource(source, {"bos_token": "<s>"})) as template:
        return template.render(messages, **variables)


def test_templates_may_use_what_models_use():
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
        "{{ m['role'] | upper }}: {{ m['content'] | trim }}{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}>{% endif %}"
    )
    assert render(source, tools=[{"a": "<ü>"}], add_generation_prompt=True) == '<s>USER: Hello[{"a": "<ü>"}]>'


def test_a_template_s_own_refusal_is_told():
    source = "{% if messages[0].role == 'tool' %}{{ raise_exception('tools are not known here') }}{% endif %}"
    with pytest.raises(ChatTemplateError, match="tools are not known here"):
        render(source, [{"role": "tool", "content": ""}])


ESCAPES = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ self.__init__.__globals__ }}",
    "{{ ''|attr('__class__') }}",
    "{{ '%s'|format(messages)|attr('format')('{0.__class__}') }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ ('{0.__cla' ~ 'ss__}').format(1) }}",
    "{{ lipsum.__globals__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'role': 'system'}) }}",
    "{{ ''.join(['_'] * 2) }}{{ messages|map(attribute='__class__')|list }}",
    "{% set x = [].__len__.__self__ %}{{ x.__class__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__globals__['json'] }}",
    "{{ namespace.__init__.__globals__ }}",
    # CVE-2024-56326: a stored reference to `format` is not the method that the sandbox watches.
    "{% set f = '{0.__class__.__mro__}'.format %}{{ f(1) }}",
    "{{ ['{0.__class__}']|map('format', 1)|list }}",
    "{{ ('{0.__class__}',)|map(attribute='format')|map('string')|list }}",
    "{{ '{x.__class__}'.format_map({'x': 1}) }}",
    # CVE-2025-27516: the `attr` filter reached what a dot may not.
    "{{ ('%s'|attr('format'))('{0.__class__.__base__}') }}",
    "{{ '{0.__class__}'|attr('format')|attr('__call__')(1) }}",
    "{{ messages|attr('__class__')|attr('__mro__') }}",
    "{{ [messages]|map('attr', '__class__')|list }}",
    "{{ [messages]|map(attribute='__class__.__mro__')|list }}",
    "{{ [messages]|groupby('__class__') }}",
    "{{ [messages]|sum(attribute='__class__', start='') }}",
    "{{ messages['__class__'] }}{{ messages[0]['__class__'] }}",
    "{{ joiner.__init__.__globals__ }}{{ dict.__subclasses__() }}",
    "{% set ns = namespace(x=1) %}{% set ns.__class__ = 2 %}{{ ns.__class__ }}",
    "{{ (1).__class__.__bases__[0].__subclasses__()[0] }}",
    "{% macro m() %}{{ caller.__globals__ }}{% endmacro %}{{ m.__init__ }}",
)


@pytest.mark.parametrize("source", ESCAPES)
def test_what_tries_to_leave_the_sandbox_is_an_error_or_inert(source):
    """CVE-2026-5760 and before it many: a template of a model ran code of its author."""
    template, _error = compile_template(source)
    rendered = render_template(template, {"messages": [MESSAGE]}).get("text", "") if template else ""
    for sign in ("<class", "uid=", "root:", "module", "subclasses", "mappingproxy"):
        assert sign not in rendered


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ [0] * 10**9 }}",
        "{{ 9**(9**9) }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a'.ljust(999999999) }}",
        "{{ 'a'|center(999999999) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ range(10**9)|list }}",
        "{% for a in range(99999) %}{{ 'x' * 99 }}{% endfor %}",
    ],
)
def test_what_makes_a_huge_value_is_an_error(source):
    with pytest.raises(ModelLoadError, match="chat template"):
        render(source)


def test_a_broken_template_refuses_the_model():
    with pytest.raises(ModelLoadError, match=r"chat_template\.jinja"):
        render("{% for %}")


def test_a_template_of_megabytes_refuses_the_model(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("x" * 300_000)
    with pytest.raises(ModelLoadError, match="longer than"):
        TemplateSource.read(tmp_path)


def test_a_conversation_that_costs_too_much_is_refused_and_the_next_one_served():
    forever = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    source = "{% if messages|length > 1 %}" + forever + "{% endif %}ok"
    message = {"role": "user", "content": ""}
    with ChatTemplate(TemplateSource(source, {})) as template:
        with pytest.raises(ChatTemplateError, match="too much time"):
            template.render([message, message])
        assert template.render([message]) == "ok"


def test_a_file_that_the_command_names_goes_before_the_models_own(tiny_model_dir, tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("{% for m in messages %}{{ m.content }}!{% endfor %}")
    own = Tokenizer.load(tiny_model_dir)
    given = Tokenizer.load(tiny_model_dir, chat_template=path)
    assert given.decode(given.apply_chat_template([MESSAGE])) == "Hello!"
    assert own.apply_chat_template([MESSAGE]) != given.apply_chat_template([MESSAGE])


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"{% for %}"])
def test_a_file_that_is_no_template_is_named(tiny_model_dir, tmp_path, content):
    path = tmp_path / "mine.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelLoadError, match="chat template"):
        Tokenizer.load(tiny_model_dir, chat_template=path)

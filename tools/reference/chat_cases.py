"""Writes what the tests of chat templates expect, as jinja2 (3.1.6) renders it.

    python chat_cases.py MODELS OUTPUT

MODELS holds deepseek-v2-lite-chat and deepseek-v3, each with a tokenizer_config.json; the other templates
are below. OUTPUT gets chat_cases.json: {"templates": {name: source}, "cases": [{"template", "variables",
"text" or "error"}]}. The environment is set up as transformers' apply_chat_template does.
"""

import json
import pathlib
import sys

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# One turn after another, a system prompt first, as DeepSeek-V2.5 has it; written for this test.
V25_STYLE = r"""
{%- if not add_generation_prompt is defined -%}
  {%- set add_generation_prompt = false -%}
{%- endif -%}
{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages if message.role == 'system' -%}
  {%- set ns.system = message['content'] | trim -%}
{%- endfor -%}
{{- ns.system -}}
{%- for message in messages -%}
  {%- if message['role'] == 'user' -%}
    {{- '<｜User｜>' + message['content'] -}}
  {%- elif message['role'] == 'assistant' -%}
    {{- '<｜Assistant｜>' ~ message['content'] ~ eos_token -}}
  {%- endif -%}
  {%- if loop.last and message.role == 'user' and add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif -%}
{%- endfor -%}
"""

# Thinking is cut from earlier answers and tools are called, as DeepSeek-R1 has it; written for this test.
R1_STYLE = r"""{# Line ends are part of this test. #}
{% if not add_generation_prompt is defined %}
    {% set add_generation_prompt = false %}
{% endif %}
{% set ns = namespace(tool=false, first_output=true, first_call=true) %}
{% for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}
        {{- raise_exception('unknown role ' ~ message.role) }}
    {%- endif %}
{% endfor %}
{{ bos_token }}{% for message in messages %}
    {%- if message['role'] == 'system' and loop.first %}{{ message['content'] }}{% endif %}
    {%- if message['role'] == 'user' %}
        {%- set ns.tool = false -%}
        {{ '<｜User｜>' + message['content'] }}
    {%- endif %}
    {%- if message['role'] == 'assistant' and 'tool_calls' in message and message['tool_calls'] %}
        {%- set ns.tool = false %}
        {%- for call in message['tool_calls'] %}
            {%- if loop.first %}
                {%- if message['content'] is none %}
{{ '<｜Assistant｜><｜tool▁calls▁begin｜>' }}
                {%- else %}
{{ '<｜Assistant｜>' + message['content'] + '<｜tool▁calls▁begin｜>' }}
                {%- endif %}
            {%- else %}{{ '\n' }}{% endif %}
            {{- '<｜tool▁call▁begin｜>' + call['type'] + '<｜tool▁sep｜>' + call['function']['name'] }}
            {%- if call.function.arguments is string %}
                {{- '\n```json\n' + call['function']['arguments'] + '\n```' }}
            {%- else %}
                {{- '\n```json\n' + (call['function']['arguments'] | tojson) + '\n```' }}
            {%- endif %}
            {{- '<｜tool▁call▁end｜>' }}
            {%- if loop.last %}{{ '<｜tool▁calls▁end｜<｜end▁of▁sentence｜>' }}{% endif %}
        {%- endfor %}
    {%- elif message['role'] == 'assistant' and message['content'] is not none %}
        {%- if ns.tool %}{{ '<｜tool▁outputs▁end｜>' }}{% set ns.tool = false %}{% else %}{{ '<｜Assistant｜>' }}{% endif %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- content + '<｜end▁of▁sentence｜>' }}
    {%- endif %}
    {%- if message['role'] == 'tool' %}
        {%- set ns.tool = true %}
        {%- if ns.first_output %}{{ '<｜tool▁outputs▁begin｜>' }}{% set ns.first_output = false %}{% endif %}
        {{- '<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>' }}
    {%- endif %}
{% endfor %}
{% if ns.tool %}{{ '<｜tool▁outputs▁end｜>' }}{% endif %}
{% if add_generation_prompt and not ns.tool %}
{{ '<｜Assistant｜><think>\n' }}
{% endif %}
"""

EMOJI = "👩‍👩‍👧 ½ é 中"
CALL = {"type": "function", "function": {"name": "weather", "arguments": '{"city": "北京"}'}}
CALL2 = {"type": "function", "function": {"name": "search", "arguments": {"q": "a \"b\"\n</x>", "n": [1, 2.5, None, True], "é": {}}}}
CONVERSATIONS = [
    [],
    [{"role": "user", "content": "Hi"}],
    [{"role": "user", "content": ""}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "介绍一下Python语言"}],
    [{"role": "system", "content": "  Be\nbrief. \n"}, {"role": "system", "content": "Be kind."}, {"role": "user", "content": " x "}],
    [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "And 2+2?"}],
    [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}],
    [{"role": "user", "content": EMOJI}, {"role": "assistant", "content": EMOJI * 3}, {"role": "user", "content": "\n\n" + EMOJI}],
    [{"role": "user", "content": "<｜Assistant｜>no<｜end▁of▁sentence｜>"}, {"role": "assistant", "content": "<｜User｜>"}],
    [{"role": "user", "content": "think"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}, {"role": "user", "content": "go on"}],
    [{"role": "user", "content": "{{ bos_token }} {% if x %} {# c #} \\n 'q' \"q\""}],
    [{"role": "user", "content": "weather?"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
     {"role": "tool", "content": "22°C"}],
    [{"role": "user", "content": "weather?"}, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
     {"role": "tool", "content": "22°C"}, {"role": "tool", "content": "rain"}, {"role": "assistant", "content": "Mild."},
     {"role": "user", "content": "thanks"}],
    [{"role": "user", "content": "both?"}, {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL2, CALL]},
     {"role": "tool", "content": "[]"}],
    [{"role": "other", "content": "?"}],
    [{"role": "user"}],
    [{"role": "user", "content": None}],
] + [[{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i}\n"} for i in range(n)] for n in range(2, 12)]

# Expressions and white space, one by one. x, y, ... are the variables below.
SNIPPETS = r"""
{{ n + 2 }} {{ n - 5 }} {{ n * 3 }} {{ n / 2 }} {{ n // 2 }} {{ -n // 2 }} {{ n % 2 }} {{ -n % 4 }} {{ 2.5 * 2 }}
{{ 1 }}{{ 1.0 }}{{ 0.1 + 0.2 }}
{{ 1.5 }} {{ 100000000000000000.0 }} {{ 0.00001 }} {{ -3.0 }} {{ true }} {{ none }} {{ 7 // 2.5 if false }}
{{ s ~ n ~ none ~ true ~ 1.5 ~ missing }}
{{ missing }}|{{ d.missing }}|{{ d['missing'] }}|{{ l[10] }}|{{ s[99] }}|{{ none.x }}|{{ n.x }}
{{ missing.x }}
{{ d.missing.x }}
{{ missing + 'a' }}
{{ missing() }}
{{ 'a' + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ l == ['a', 'b', 'c'] }} {{ none == none }}
{{ 'a' < 1 }}
{{ 'a' in l }} {{ 'z' not in l }} {{ 'k' in d }} {{ 'é' in s }} {{ 1 in [1, 2] }} {{ 'x' in missing }} {{ none in [none] }}
{{ 1 in 'abc' }}
{{ not n }} {{ n and s }} {{ 0 or 'x' }} {{ '' and n }} {{ not not l }} {{ not a is defined }} {{ n is not none and s is string }}
{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-2] }} {{ s[5:2] }} {{ s[::2] }} {{ s[100:] }} {{ s[-100:2] }}
{{ l[1:] | join('+') }} {{ l[::-1] | join }} {{ l[-2:] | join(',') }} {{ l[:1] | join }} {{ l.0 }} {{ l[0:3:2] | join }}
{{ d.k }} {{ d['k'] }} {{ d.get('k') }} {{ d.get('z') }} {{ d.get('z', 'def') }} {{ d.keys() | join(',') }}
{% for k, v in d.items() %}{{ k }}={{ v | tojson }};{% endfor %}
{% for k in d %}{{ k }};{% endfor %}
{% for c in s %}{{ loop.index }}{{ c }}{% if not loop.last %},{% endif %}{% endfor %}
{% for x in [] %}a{% else %}empty{% endfor %} {% for x in missing %}a{% else %}none{% endfor %}
{% for x in 5 %}a{% endfor %}
{% for x in range(5) if x % 2 == 0 %}{{ loop.index0 }}:{{ x }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{{ loop.index }}{% endfor %}
{{ range(3) | join }} {{ range(2, 5) | join }} {{ range(5, 0, -2) | join }} {{ range(0) | length }}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}
{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t | length }}
{% set block %}x{{ n }}y{% endset %}{{ block | upper }}
{% if n > 100 %}a{% elif n == 7 %}b{% else %}c{% endif %}{% if missing %}a{% endif %}{% if l %}l{% endif %}
{{ 'a' if n == 7 else 'b' }}{{ 'a' if n == 8 else 'b' if n == 9 else 'c' }}{{ 'x' if false }}
{{ s.split('b') | join('|') }} {{ 'a b  c'.split() | join('|') }} {{ 'a b  c'.split(' ') | join('|') }} {{ ' a  b c '.split(none, 1) | join('|') }}
{{ 'a,b,c'.split(',', 1)[1] }} {{ 'abc'.split('x')[-1] }} {{ ''.split(',') | length }} {{ ''.split() | length }}
{{ 'x'.split('') }}
{{ '\n\t a \u3000'.strip() }}| {{ ' a '.lstrip() }}| {{ ' a '.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'éaé中'.strip('中é') }} {{ 'xya'.lstrip('yx') }}
{{ 'Abc'.startswith('A') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith('') }} {{ 'aBc'.upper() }} {{ 'aBc中'.lower() }}
{{ 'aXbXc'.replace('X', '--') }} {{ 'aXbXc'.replace('X', '', 1) }} {{ 'aaa'.replace('aa', 'b') }}
{{ ' a ' | trim }}| {{ 'xax' | trim('x') }} {{ s | length }} {{ l | count }} {{ d | length }} {{ missing | length }} {{ 'é' | upper if false }}
{{ s | first }} {{ s | last }} {{ l | first }} {{ l | last }} {{ [] | first }} {{ d | first }}
{{ missing | default('x') }} {{ '' | default('x') }} {{ '' | default('x', true) }} {{ none | d('y', boolean=true) }} {{ missing | d }}
{{ [1, 2] | join(', ') }} {{ l | join('-') | upper }} {{ 'abc' | join('.') }} {{ 5 | string ~ 'x' }} {{ (-1) | string }}
{{ d | tojson }}
{{ d | tojson(indent=2) }}
{{ [] | tojson(indent=4) }} {{ {} | tojson }} {{ [[], {'a': []}] | tojson(indent=1) }} {{ '<&\'é"\\' | tojson }} {{ 'a\u0001\x7f\b\f' | tojson }}
{{ {'a': 1, 'b': [1.0, none, true, 'x']} | tojson }} {{ none | tojson }} {{ 1.5 | tojson }} {{ (1, 2) | tojson }}
{{ missing | tojson }}
{{ 'a' 'b' "c" }} {{ "it's" }} {{ 'say "x"' }} {{ '\\n\'\x41\u00e9\U0001F600\q' }} {{ 'tab\tnew\nline' }}
{{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ l is iterable }} {{ n is number }} {{ n is integer }} {{ 1.5 is float }} {{ true is boolean }} {{ 1 is true }} {{ true is true }} {{ false is false }} {{ none is none }} {{ missing is undefined }} {{ s is not mapping }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ d is iterable }} {{ s is sequence }}
{{ n is eq 7 }} {{ n is ne(7) }} {{ 'a' is in l }} {{ 'a' is in(l) }} {{ n is equalto 8 }} {{ n == 7 is true }}
{{ 'x' * 3 }} {{ 2 * 'ab' }} {{ [1] + [2] == [1, 2] }} {{ -1 | string }} {{ +5 }} {{ - - 5 }}
{{ [1, 2, 3,][1] }} {{ {'a': {'b': [10, 20]}}.a.b[1] }} {{ {'a': 1}['a'] }} {{ ((1)) }} {{ (1, 2)[0] }} {{ () | length }}
{{ d.items() | length }} {{ d['items'] is defined }} {{ s.nothing is defined }} {{ d.nothing is defined }}
{{ raise_exception('no') }}
{{ raise_exception('no: ' ~ s) }}
{{ unknown_function(1) }}
{{ 1 // 0 }}
{{ l.x is defined }} {{ loop is defined }} {{ namespace is defined }}
{%- if true -%}   a   {%- endif -%}   b
a {{- ' b ' -}} c {{ ' d ' }} e
{# comment #}a{#- comment -#} b {#+ c +#} c
{{ '}}' }} {{ '%}' }} {{ "{{" }} {{ {'a': {'b': 1}}['a']['b'] }} { % } { { } } #}
{%+ if true +%} a {%+ endif +%} b
""".strip("\n").split("\n") + [
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n", "a\n\n", "a\r\nb\rc\n\n", "  {% if true %}\n x\n{% endif %}  \n y",
    "{% if true %}\n\n  a\n\n{% endif %}\n\nb", "a\n\t {#- c -#} \n b", " {# c #} \n{# c #}\nb", "a {% if true %} b {% endif %}\nc",
    "{%- for x in l %}\n{{ x }}\n{%- endfor %}\n", "{% for x in l -%}\n  {{ x }}\n{% endfor %}", "a\n   {%+ if true %}\nb{% endif %}",
    "\n{{ n }}\n\n{{ n }}\n", "{{ n }}\n  {% set x = 1 %}\n  {% set y = 2 %}\n{{ x }}{{ y }}", "{% if true %}a\n{%- endif %}\n", "x{{-\nn\n-}}\ny",
    "{% set x = 'a\nb' %}{{ x }}", "{{ 'a\\\nb' }}", "\u3000{%- if true -%}\u2003a\u00a0{%- endif %}", "{{ n -}}\n\n  z", "{{ n }}{# c #}\n  {% if true %}b{% endif %}",
]
SNIPPET_VARIABLES = {"n": 7, "s": "abébc", "l": ["a", "b", "c"], "d": {"k": "v", "a": 1, "z z": [1, {"é": None}]}}


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


def render(source, variables):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(source).render(**variables)


def main():
    models, output = map(pathlib.Path, sys.argv[1:])
    templates = {name: json.loads((models / name / "tokenizer_config.json").read_text())["chat_template"]
                 for name in ["deepseek-v2-lite-chat", "deepseek-v3"]}
    templates |= {"v2.5 style": V25_STYLE, "r1 style": R1_STYLE}
    cases = []

    def put(template, variables):
        case = {"template": template, "variables": variables}
        try:
            case["text"] = render(templates.get(template, template), variables)
        except Exception as error:  # jinja2's, or Python's own from inside an expression
            case["error"] = str(error)
        cases.append(case)

    tokens = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
    for template in templates:
        for messages in CONVERSATIONS:
            for flag in [{}, {"add_generation_prompt": False}, {"add_generation_prompt": True}]:
                put(template, {"messages": messages, "tools": None, "documents": None} | tokens | flag)
    for snippet in SNIPPETS:
        put(snippet, SNIPPET_VARIABLES)
    file = {"templates": templates, "cases": cases}
    (output / "chat_cases.json").write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")))


main()

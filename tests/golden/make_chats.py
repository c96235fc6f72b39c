#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders conversations with the chat templates of tests/golden/chat, as transformers does.

  pip install "transformers>=5.24" jinja2
  python3 tests/golden/make_chats.py

The templates are written here in the manner of the families that they are named after. Each expected.json has, for
every template, the text of every conversation, or the message with which the template refuses it, or that it fails.
"""
import json
import os

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

TEMPLATES = {
    "chatml": """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "llama2": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "llama3": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("no first user message") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate: " ~ message.role) }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, found " + message["role"]) }}
    {%- endif %}
{%- endfor %}
""",
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
""",
    "phi": """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "qwen": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    # Tests the language itself: constructs that the families above do not combine.
    "language": """
{%- macro line(text, mark='*', n=2) -%}
{{ mark * n }} {{ text | upper }}
{% endmacro -%}
{% set ns = namespace(total=0, names=[]) %}
  {% for m in messages if m.role != 'system' %}
    {# a comment #}
    {{ line(m.role, n=loop.index) }}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ ' last' if loop.last }}
    {%- set ns.total = ns.total + (m.content | length) %}
    {% set ns.names = ns.names + [m.role] %}
    {% if loop.index > 2 %}{% break %}{% endif %}
  {% else %}
    nothing
  {% endfor %}
{% set block %}[{{ ns.names | join(', ') }}]{% endset %}
{{ block }} {{ ns.total }} {{ ns.total / 2 }} {{ ns.total // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 1.0 }} {{ 'x' ~ 1 ~ none }}
{{ messages | map(attribute='role') | unique | list }} {{ {'a': 1, 'b': [true, none, 'it\\'s']} }} {{ [1, 2, 3][::-1] }} {{ 'abc'[1:] }}
{{ missing | default('fallback') }} {{ missing is defined }} {{ messages[0].nothing is none }} {{ 1 < 2 < 3 }} {{ 'a' in 'abc' and not 'z' in 'abc' }}
{{ {'b': 1, 'a': 'ü"\\n'} | tojson }} {{ [1, {'k': []}] | tojson(indent=2) }} {{ 'a,b'.split(',') | last }} {{ ' x '.strip() | title }}
{{ messages | selectattr('role', 'in', ['user']) | list | length }} {{ range(1, 6, 2) | list }} {{ 3 is odd }} {{ 'abc' | first }}
{{- '   kept' }}
{%- raw %} {{ not a value }} {% endraw %}
{{ "%s" }} {{ 'ÄÖ' | lower | trim }}{{ 5 if false }}
{% generation %}done{% endgeneration %}
""",
    # Values that differ from what they look like: tuples, views, generators, methods and text that is safe.
    "values": """
{%- set users = messages | selectattr('role', 'eq', 'user') -%}
{{ 'a generator is true' if messages | selectattr('role', 'eq', 'nobody') }} {{ users | list | length }} {{ users | list }}
{{ (1,) }} {{ (1, 2) == [1, 2] }} {{ {'a': 1, 2: [none]}.items() }} {{ {'a': 1}.keys() }} {{ range(3) }} {{ {1: 'x'}[true] }}
{{ "it's one" | title }} {{ "it's one".title() }} {{ 'stra\u00dfe' | upper }} {{ '\u039f\u0394\u039f\u03a3' | lower }} {{ ['\u00a0', 'a"b'] }}
{{ messages[0].get is defined }} {{ {'items': 1}['items'] }} {{ {'a': 1}['values'] is callable }} {{ none | map('upper') | list }}
{{ ('<' | safe) + '<' }} {{ ('<' | safe) ~ '<' }} {{ [('a' | safe)] }} {{ '{} {x}'.format(1, x=2) }} {{ 'a  b '.split(' ') }} {{ ' a b '.split(None, 1) }}
{{ '3.7' | int }} {{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 5 | round }} {{ 2 ** 60 }} {{ -7.5 // 2 }} {{ 7 % -3 }} {{ 'a' * true }} {{ 1e16 }} {{ 1 == 1.0 }}
{{ ['b', 'A', 'a'] | sort }} {{ ['a', 'A'] | unique | list }} {{ ['b', 'A'] | min }} {{ {'b': 1, 'A': 2} | dictsort }} {{ 'abcb'.find('b', 2) }} {{ 'abc'.replace('', '-', 2) }}
{{ "a\n\nb" | indent }} {{ strftime_now is defined }} {{ [1, 2] is sequence }} {{ messages | map(attribute='role') is sequence }} {{ 'Ab' is lower }}
{% for m in messages %}{{ m.content is defined }} {{ m.reasoning_content | default('-') }} {{ m.thinking | default('-') }}{{ m.tool_calls is defined }};{% endfor %}
""",
    # Blocks with a body, and what they do with the variables in it.
    "blocks": """
{%- macro around(text, more=2) %}[{{ text }}{{ more }}{{ caller('x') if caller }}{{ varargs }}{{ kwargs }}]{% endmacro -%}
{{ around(1) }} {{ around(1, 2, 3, k=4) }} {{ around(*[1, 2], **{'z': 5}) }}
{% call(p) around('t') %}inner {{ p }}{% set outer = 1 %}{% endcall %} {{ outer is defined }}
{% filter upper | trim %}  shout {{ messages[0].role }} {% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %} {{ c is defined }}
{% set text | trim | length %}  abc {% endset %}{{ text }}
{% for x in [] %}{% else %}{% set none_left = 1 %}{{ loop is defined }}{% endfor %}{{ none_left is defined }}
{% generation %}{% set inside = 1 %}{{ inside }}{% endgeneration %}{{ inside is defined }}
{% set ns = namespace(f=around) %}{{ ns.f('called', more='') }} {{ [around][0]('item') }}
{% raw %}
 kept {{ x }}
{% endraw +%}
 {%- for a in 'xy' %}{{ loop.cycle('odd', 'even') }}{{ loop.depth }}{% endfor %}
""",
}

S, U, A = ({"role": r} for r in ("system", "user", "assistant"))
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Wetter für eine \"Stadt\"", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CONVERSATIONS = [
    {"messages": [{**U, "content": "Hello, who are you?"}], "opens_answer": True},
    {"messages": [{**S, "content": "  Be brief.\n"}, {**U, "content": " What's 1 + 1? "}], "opens_answer": True},
    {"messages": [{**S, "content": "Be brief."}, {**U, "content": "Grüße <b>\"x\"</b> 😀"}, {**A, "content": " Ja.\n"},
                  {**U, "content": "And\n\nnow?"}], "opens_answer": True},
    {"messages": [{**U, "content": "a"}, {**A, "content": "<think>\nhmm\n</think>\n\nb"}, {**U, "content": "c"},
                  {**A, "content": "<think>\nso\n</think>\n\nd"}], "opens_answer": False},
    {"messages": [{**U, "content": "a"}, {**U, "content": "twice"}], "opens_answer": True},
    {"messages": [{**U, "content": "Weather in Bonn?"}], "opens_answer": True, "variables": {"tools": TOOLS}},
    {"messages": [{**U, "content": "Weather?"}, {**A, "content": "", "tool_calls": [{"type": "function", "function": {
        "name": "weather", "arguments": {"city": "Bonn", "days": 2, "scale": 1.5, "exact": True}}}]},
                  {"role": "tool", "content": "{\"temp\": 3}"}, {"role": "tool", "content": "windy"}], "opens_answer": True},
    {"messages": [{**U, "content": "Sum?"}, {**A, "content": None, "tool_calls": None, "reasoning": "one and one"},
                  {"role": "tool", "content": "2"}, {**A, "content": "Two.", "thinking": "so", "reasoning_content": None}],
     "opens_answer": False},
    {"messages": [{**U, "content": [{"type": "text", "text": "a part"}]}], "opens_answer": True},
    {"messages": [{**U, "content": "Think not."}], "opens_answer": True, "variables": {"enable_thinking": False}},
]


def render(template, case):
    try:
        rendered, _ = render_jinja_template([_normalize_chat_messages(case["messages"])], chat_template=template, **TOKENS,
                                            add_generation_prompt=case["opens_answer"], **case.get("variables", {}))
        return {"text": rendered[0]}
    except TemplateError as error:
        # What raise_exception() says is the user's text; the others are Python's.
        return {"problem": str(error)} if type(error) is TemplateError else {"fails": True}
    except TypeError:
        return {"fails": True}


def main():
    os.makedirs(OUT, exist_ok=True)
    expected = {"conversations": CONVERSATIONS, "tokens": TOKENS, "expected": {}}
    for name, template in TEMPLATES.items():
        with open(os.path.join(OUT, name + ".jinja"), "w", encoding="utf-8") as f:
            f.write(template)
        expected["expected"][name] = [render(template, case) for case in CONVERSATIONS]
    with open(os.path.join(OUT, "expected.json"), "w", encoding="utf-8") as f:
        json.dump(expected, f, indent=1, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()

"""The page of the HTTP API, written from the OpenAPI document of the service."""

import json

from made_page import setup_of

TITLE = """# The HTTP API

This page is generated from the OpenAPI document of this version, which a running service has at
`/openapi.json`. [Service](../service.md) says how to start a service and what it promises.

`{name}` is the name of a model: that of its file without `.ks`. If the service has a token, every
request for `/v1` or `/metrics` needs the header `Authorization: Bearer TOKEN`. A request with a
body needs a `Content-Type`, such as `application/json`.
"""


def in_words(schema):
    """The type of a value, such as "list of numbers or strings"."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(in_words(choice) for choice in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of ({in_words(schema['items'])})" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of ({in_words(schema['additionalProperties'])})"
    return kind


def fields_of(schema):
    """A table of the fields of an object; of nothing else."""
    if "properties" not in schema:
        return []
    lines = ["| field | type | what it is |", "|---|---|---|"]
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        needed = " (required)" if name in required else ""
        lines.append(f"| `{name}`{needed} | {in_words(field)} | {field.get('description', '')} |")
    return [*lines, ""]


def example_of(content):
    """What is sent or answered, as a block; text as it is."""
    example = content.get("example")
    if example is None:
        return []
    is_text = isinstance(example, str)
    text = example.rstrip() if is_text else json.dumps(example)
    return [f"```{'text' if is_text else 'json'}", text, "```", ""]


def parameters_of(operation):
    lines = []
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            schema = parameter["schema"]
            default = f"`{schema['default']}`" if "default" in schema else ""
            text = parameter["description"]
            lines.append(f"| `?{parameter['name']}=` | {in_words(schema)} | {default} | {text} |")
    if not lines:
        return []
    return ["| parameter | values | default | what it does |", "|---|---|---|---|", *lines, ""]


def section_of(method, path, operation):
    """What an endpoint does, its parameters, what is sent, and what is answered."""
    lines = [f"## {method.upper()} {path}", "", f"{operation['summary']}.", ""]
    lines += [operation["description"], ""] if "description" in operation else []
    lines += parameters_of(operation)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if "$ref" in content["schema"]:
            name = content["schema"]["$ref"].rpartition("/")[2]
            lines += [f"The body is an object of the form [{name}](#{name.lower()}):", ""]
        elif "example" in content:
            lines += [f"The same as `{kind}`:", ""]
        else:
            lines += [f"The body may also be `{kind}`.", ""]
        lines += example_of(content)
    status, answer = next(iter(operation["responses"].items()))
    for kind, content in answer["content"].items():
        lines += [f"The answer has the status {status} and the type `{kind}`:", ""]
        lines += example_of(content) + fields_of(content["schema"])
    return lines


def problems_of(operation, problem):
    """How a request is refused, which is the same everywhere."""
    lines = [
        "## Errors", "",
        "If a request is refused, the answer has the type `application/problem+json` (RFC 9457):",
        "", "| status | meaning |", "|---|---|",
    ]  # fmt: skip
    for status, answer in operation["responses"].items():
        if "application/problem+json" in answer["content"]:
            lines.append(f"| {status} | {answer['description']} |")
    return [*lines, "", *example_of(problem), *fields_of(problem)]


def limits_of(limits):
    lines = ["## Limits", "", "| limit | default |", "|---|---|"]
    lines += [f"| `{name}` | {value:,} |" for name, value in limits._asdict().items()]
    return [*lines, "", "`kernelstream.serve.Limits` says what each of them is.", ""]


def page():
    from kernelstream.serve import Limits
    from kernelstream.serve.openapi import document

    described = document(Limits())
    schemas = described["components"]["schemas"]
    lines = [TITLE]
    operation = None
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            lines += section_of(method, path, operation)
    for name in ("Rows", "Labels"):
        schema = schemas[name]
        lines += [f"## {name}", "", schema["description"], "", *fields_of(schema)]
    lines += problems_of(operation, schemas["Problem"]) + limits_of(Limits())
    return "\n".join(lines)


setup = setup_of("http_api.md", page)

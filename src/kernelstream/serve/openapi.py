"""The OpenAPI document, with an example of everything."""

from functools import cache
from typing import Any

import msgspec

import kernelstream
from kernelstream.serve.bodies import FORMATS, Labels, Rows
from kernelstream.serve.limits import Limits

__all__ = ["document"]

_ROWS: dict[str, list[Any]] = {"rows": [[0.1, 2.5, -1.0], [1.5, 0.2, 0.3]]}
_LEARN: dict[str, list[Any]] = {**_ROWS, "targets": ["yes", "no"], "ids": ["order-17", "order-18"]}
_SUMMARY: dict[str, Any] = {
    "name": "model", "class": "KernelClassifier", "task": "classification", "n_seen": 1000,
    "error": 0.08, "recent_error": 0.05, "rows_per_second": 120.0, "failure": None,
    "disk_problem": None,
}  # fmt: skip
_STATE_EXAMPLE: dict[str, Any] = {
    **_SUMMARY, "n_features": 3, "n_classes": 2, "classes": ["no", "yes"], "columns": None,
    "step_size": 0.1, "margin": 1.0, "n_support": 512, "drift_score": 0.02, "n_learned": 1000,
    "n_queued": 0, "n_skipped": 1, "skipped": {"its label is …": 1},
    "baselines": {"most frequent label": 0.4, "label of the row before": 0.5}, "events": [640],
}  # fmt: skip
_KEYS = "A fleet needs the keys of the rows, in `keys`."


def _field(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **more}


def _strings(description: str) -> dict[str, Any]:
    return _field("array", description, items={"type": "string"})


_ROW_PROPERTIES = {
    "row": _field("integer", "The number of the row in the request, from 0."),
    "reason": _field("string", "What is wrong with it."),
}
_COUNTS = {
    "accepted": _field("integer", "How many rows are on the disk."),
    "repeated": _field("integer", "How many rows had an id that had been learned before."),
}
_BAD_ROWS = {"type": "object", "properties": _ROW_PROPERTIES}
_SKIPPED = _field("array", "The rows that were left out, with `row` and `reason`.", items=_BAD_ROWS)
_PREDICTIONS = _field("array", "A label, a number, or 1 and -1 (an alarm), for each row.")
_STATE = {
    "name": _field("string", "The stem of the model's file."),
    "class": _field("string", "The class of the model, such as `AutoClassifier`."),
    "task": _field("string", "`classification`, `regression` or `novelty`."),
    "models": _field("string", "What a fleet keeps for every key."),
    "n_features": _field("integer", "Features of a row."),
    "n_classes": _field("integer", "Classes so far, of a classifier."),
    "classes": _field("array", "The names of the first of them."),
    "columns": _field("array", "The names of the columns, if the model knows names."),
    "encoded": _field("boolean", "Whether rows may have text and dates."),
    "n_seen": _field("integer", "Rows that the model has learned, also before it was served."),
    "n_keys": _field("integer", "Models of a fleet."),
    "n_learned": _field("integer", "Rows that the service has learned."),
    "n_repeated": _field("integer", "Rows that were not learned because of their id."),
    "n_skipped": _field("integer", "Bad rows."),
    "skipped": _field("object", "How many bad rows there were, by reason."),
    "bad_rows": _field("array", "The latest bad rows, with `row`, `reason` and `time`."),
    "n_queued": _field("integer", "Rows that wait to be learned."),
    "n_without_target": _field("integer", "Rows that wait for their targets."),
    "position": _field("integer", "Rows in the log."),
    "checkpoint_position": _field("integer", "Rows in the last checkpoint."),
    "error": _field("number", "The mean error, each row predicted before it was learned."),
    "error_sum": _field("number", "The sum of these errors."),
    "recent_error": _field("number", "The same over the last rows."),
    "baselines": _field("object", "The mean errors of simple rules, by name."),
    "n_events": _field("integer", "How often the stream has changed."),
    "events": _field("array", "The rows of the latest changes."),
    "rows_per_second": _field("number", "Rows learned per second, over the last ten seconds."),
    "failure": _field("string", "Why learning has stopped; null while it works."),
    "disk_problem": _field("string", "What cannot be written to the disk; null while it works."),
    "failed_writes": _field("object", "How many writes failed, by kind."),
    "ready": _field("boolean", "Whether the model learns and its disk can be written."),
    "step_size": _field("number", "The current step size."),
    "margin": _field("number", "The current margin."),
    "offset": _field("number", "The threshold of a detector."),
    "n_support": _field("integer", "Support vectors."),
    "drift_score": _field("number", "How far the step size has risen above its recent values."),
    "weights": _field("object", "How much each member of a committee counts."),
    "history": _field("array", "The numbers that the page draws, with `history=true`."),
}
# Of these the list of all models has some.
_SHORT_STATE = {"models": _field("array", "Name, class, task, counts and errors of each model.")}
_KEYS_FOUND = {
    "keys": _field("array", "Keys, each with what can be read of its model."),
}
_PROBLEMS = {
    400: "The body or the query cannot be read.",
    401: "The token is missing or wrong.",
    403: "The host name is not served without a token.",
    404: "There is no such model or key, or no row waits under these ids.",
    409: "The model has not learned anything yet.",
    413: "The body is too large, or has too many rows.",
    415: "The content type is not supported.",
    422: "Rows, targets, ids or keys cannot be used: the answer says which and why.",
    429: "Too many rows wait to be learned: see Retry-After.",
    503: "The model does not learn now, or too many pages are open.",
}
_MODEL = "/v1/models/{name}"
_NAME = {
    "name": "name", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "The stem of the model's file.", "example": "model",
}  # fmt: skip


@cache
def document(limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a service with these limits."""
    refs, schemas = msgspec.json.schema_components(
        [Rows, Labels], ref_template="#/components/schemas/{name}"
    )
    rows, labels = refs
    schemas["Problem"] = _problem_schema()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kernelstream", "version": kernelstream.__version__,
            "description": "Models that learn while they are asked. Limits: "
            + ", ".join(f"{k} {v:,}" for k, v in limits._asdict().items()) + ".",
        },
        "paths": {**_learning(rows, labels), **_about()},
        "components": {
            "schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        },
        "security": [{"token": []}, {}],
    }  # fmt: skip


def _learning(rows: Any, labels: Any) -> dict[str, Any]:
    """Return the endpoints that predict and learn; `rows` and `labels` are schemas of bodies."""
    many = {
        kind: {"schema": rows if kind == "application/json" else {"type": "string"}}
        for kind in FORMATS
    }
    return {
        f"{_MODEL}/predict": _post(
            "Predict rows", f"Rows with ids, or with `wait=true`, wait for their targets. {_KEYS}",
            _with_example(many, _ROWS), 200, "Predictions, in the order of the rows.",
            {"predictions": _PREDICTIONS,
             "scores": _field("array", "The scores, with `scores=true`."),
             "ids": _strings("The ids under which the rows wait, if they do.")},
            {"predictions": ["yes", "no"]},
            [_flag("wait", "Whether the rows wait for targets."),
             _flag("scores", "Whether the answer has scores, too.")],
        ),
        f"{_MODEL}/learn": _post(
            "Learn rows",
            f"The answer comes when the rows are on the disk; they are learned soon after. {_KEYS}",
            _with_example(many, _LEARN), 202, "How many rows were accepted.",
            {**_COUNTS, "skipped": _SKIPPED}, {"accepted": 2, "repeated": 0, "skipped": []},
            [_choice("on_bad_row", ["raise", "skip"], "What becomes of rows that are bad.")],
        ),
        f"{_MODEL}/step": _post(
            "Predict rows, then learn them",
            f"Every row is predicted before it is learned; the answer comes afterwards. {_KEYS}",
            _with_example(many, _LEARN), 200, "Predictions, in the order of the rows.",
            {"predictions": _PREDICTIONS, **_COUNTS, "skipped": _SKIPPED},
            {"predictions": ["yes", "yes"], "accepted": 2, "repeated": 0, "skipped": []}, [],
        ),
        f"{_MODEL}/labels": _post(
            "Learn rows whose targets come later",
            "Rows are found by the ids that `predict` was given or returned.",
            {"application/json": {"schema": labels,
                                  "example": {"ids": ["order-17"], "targets": ["no"]}}},
            202, "How many rows were accepted.",
            {**_COUNTS, "unknown": _strings("Ids under which no row waits.")},
            {"accepted": 1, "repeated": 0, "unknown": []}, [],
        ),
    }  # fmt: skip


def _about() -> dict[str, Any]:
    """Return the endpoints that show something."""
    return {
        "/v1/models": _get(
            "List all models", "application/json",
            {"models": [{**_SUMMARY, "n_keys": None}]}, [],
            _SHORT_STATE,
        ),
        _MODEL: _get(
            "Show the state of a model", "application/json",
            _STATE_EXAMPLE,
            [_NAME, _flag("history", "Whether the answer has the numbers that the page draws.")],
            _STATE,
        ),
        f"{_MODEL}/keys": _get(
            "Show keys of a fleet: those that learned last or drift most, or one",
            "application/json",
            {"keys": [{"key": "hall", "text": '"hall"', "n_seen": 50, "drift_score": 0.1,
                       "step_size": 0.5, "margin": 1.0, "n_support": 16, "idle_rows": 0}]},
            [_NAME, _query("limit", "integer", 100, "How many keys at most, up to 1,000."),
             _choice("sort", ["latest", "drift"], "Which keys come first."),
             _query("key", "string", '"hall"', "One key, as JSON: the state of its model.")],
            _KEYS_FOUND,
        ),
        f"{_MODEL}/events": _get(
            "Send the state whenever it changes, as server-sent events", "text/event-stream",
            'event: state\ndata: {"name": "model", "n_learned": 1000}\n\n', [_NAME],
        ),
        "/metrics": _get(
            "Show metrics for Prometheus", "text/plain",
            '# TYPE kernelstream_rows_learned_total counter\n'
            'kernelstream_rows_learned_total{model="model"} 1000\n',
        ),
        "/healthz": _get("Say that the service is alive", "application/json", {"status": "alive"}),
        "/readyz": _get(
            "Say whether every model learns", "application/json", {"status": "ready", "models": 1}
        ),
        "/openapi.json": _get("Show this document", "application/json", {"openapi": "3.1.0"}),
    }  # fmt: skip


def _post(
    summary: str, description: str, content: Any, status: int, said: str, properties: Any,
    example: Any, parameters: list[Any],
) -> dict[str, Any]:  # fmt: skip
    schema = {"type": "object", "properties": properties}
    answer = {
        "description": said,
        "content": {"application/json": {"schema": schema, "example": example}},
    }
    return {
        "post": {
            "summary": summary, "description": description, "parameters": [_NAME, *parameters],
            "requestBody": {"required": True, "content": content},
            "responses": {str(status): answer, **_problems()},
        }
    }  # fmt: skip


def _get(
    summary: str, kind: str, example: Any, parameters: list[Any] | None = None,
    properties: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    schema: dict[str, Any] = {"type": "string" if isinstance(example, str) else "object"}
    if properties:
        schema["properties"] = properties
    content = {kind: {"schema": schema, "example": example}}
    return {
        "get": {
            "summary": summary, "parameters": parameters or [],
            "responses": {"200": {"description": summary, "content": content}, **_problems()},
        }
    }  # fmt: skip


def _problems() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        str(status): {"description": text, "content": {"application/problem+json": {
            "schema": schema}}}
        for status, text in _PROBLEMS.items()
    }  # fmt: skip


def _problem_schema() -> dict[str, Any]:
    return {
        "type": "object", "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": _field("string", "A name for problems of this kind."),
            "title": _field("string", "The same in words."),
            "status": _field("integer", "The status of the answer."),
            "detail": _field("string", "What is wrong with this request, and the remedy."),
            "row": _field("integer", "The number of the first bad row, from 0."),
            "rows": _field("array", "The bad rows, with `row` and `reason`.", items=_BAD_ROWS),
        },
        "example": {
            "type": "urn:kernelstream:problem:bad-rows", "title": "Some rows cannot be used",
            "status": 422, "detail": "Row 3: it has 2 features, and this model learns from 3.",
            "row": 3, "rows": [{"row": 3, "reason": "it has 2 features, ..."}],
        },
    }  # fmt: skip


def _with_example(content: dict[str, Any], example: dict[str, list[Any]]) -> dict[str, Any]:
    """Return an example as one object, and as lines with an object per row."""
    singular = [name.removesuffix("s") for name in example]
    rows = [dict(zip(singular, row, strict=True)) for row in zip(*example.values(), strict=True)]
    lines = "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)
    examples = {"application/json": example, "application/x-ndjson": lines}
    return {
        kind: {**schema, "example": examples[kind]} if kind in examples else schema
        for kind, schema in content.items()
    }


def _choice(name: str, values: list[str], text: str) -> dict[str, Any]:
    schema = {"type": "string", "enum": values, "default": values[0]}
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _query(name: str, kind: str, example: Any, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}, "description": text,
            "example": example}  # fmt: skip


def _flag(name: str, text: str) -> dict[str, Any]:
    return _choice(name, ["false", "true"], text)

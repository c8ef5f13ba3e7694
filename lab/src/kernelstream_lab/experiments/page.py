"""One self-contained HTML page with the results of all experiments."""

import base64
import re
from html import escape
from pathlib import Path
from typing import Any

from kernelstream_lab.experiments.files import Report, read_all
from kernelstream_lab.experiments.registry import names

__all__ = ["write_page"]


def write_page(out: Path) -> Path:
    """Write results.html from the files of all experiments in a folder."""
    path = out / "results.html"
    path.write_text(_page(read_all(out)), encoding="utf-8")
    return path


def _page(reports: list[Report]) -> str:
    body = [_opening(reports), _contents(reports)]
    body += [_section(report) for report in reports]
    body.append(_colophon(reports))
    return _FRAME.format(style=_STYLE, body="\n".join(body))


def _prose(text: str) -> str:
    """Escape text for HTML, with `code` in code tags."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _opening(reports: list[Report]) -> str:
    n_checks = sum(len(report.outcome.checks) for report in reports)
    n_holding = sum(report.n_holding for report in reports)
    quick = (
        "<p class='quick'>Some of these are quick runs on small parts of the data, made to test "
        "that everything works. Their figures mean little.</p>"
        if any(report.circumstances["quick"] for report in reports)
        else ""
    )
    return (
        "<header><p class='kicker'>kernelstream</p><h1>The papers’ experiments, run again</h1>"
        "<p class='lead'>Five papers on online learning with kernels, from 2001 to 2006, and what "
        "their experiments show today: every picture drawn like the original, the paper’s figures "
        "beside ours, and what the papers claim, checked.</p>"
        f"<p class='score'><b>{n_holding}</b> of {n_checks} checks hold, in "
        f"{len(reports)} experiments.</p>{quick}</header>"
    )


def _contents(reports: list[Report]) -> str:
    lines = []
    for report in reports:
        experiment, outcome = report.experiment, report.outcome
        marks = "".join(_mark(check.holds) for check in outcome.checks)
        lines.append(
            f"<tr><td><a href='#{experiment.name}'>{escape(experiment.title)}</a></td>"
            f"<td>{escape(_short(experiment.paper))}, {escape(experiment.figure)}</td>"
            f"<td class='marks'>{marks}</td></tr>"
        )
    there = {report.experiment.name for report in reports}
    missing = [name for name in names() if name not in there]
    listed = ", ".join(f"<code>{name}</code>" for name in missing)
    rest = f"<p class='small'>Not run yet: {listed}.</p>" if missing else ""
    return (
        "<nav aria-label='Contents'><table><thead><tr><th>Experiment</th><th>Original</th>"
        f"<th>Checks</th></tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}</nav>"
    )


def _short(paper: str) -> str:
    """Return the venue and year of a paper, which follow its title."""
    return paper.rpartition(". ")[2]


def _mark(holds: bool) -> str:
    kind, sign, text = ("yes", "✓", "holds") if holds else ("no", "✗", "does not hold")
    return f"<span class='{kind}' title='{text}' aria-label='{text}'>{sign}</span>"


def _section(report: Report) -> str:
    experiment, outcome = report.experiment, report.outcome
    return "\n".join(
        [
            f"<section id='{experiment.name}'>",
            f"<p class='kicker'>{escape(_short(experiment.paper))}, {escape(experiment.figure)}"
            f" · <code>{experiment.name}</code></p>",
            f"<h2>{escape(experiment.title)}</h2>",
            f"<p class='question'>{_prose(experiment.question)}</p>",
            _figure(report),
            _table(report),
            _checks(report),
            "<h3>Notes</h3><ul>" if outcome.notes else "",
            *(f"<li>{_prose(note)}</li>" for note in outcome.notes),
            "</ul>" if outcome.notes else "",
            _parameters(experiment.parameters),
            f"<p class='small'>After {_prose(experiment.paper)}. Run with seed "
            f"{report.circumstances['seed']} in {report.circumstances['seconds']} s.</p>",
            "</section>",
        ]
    )


def _figure(report: Report) -> str:
    picture = base64.b64encode(report.picture).decode()
    caption = escape(report.experiment.caption, quote=True)
    width = round(96 * report.experiment.size[0])
    return (
        f"<figure style='max-width:{width}px'><img alt='{caption}' "
        f"src='data:image/png;base64,{picture}'><figcaption>{caption}</figcaption></figure>"
    )


def _table(report: Report) -> str:
    lines = "".join(
        f"<tr><td>{_prose(row.quantity)}</td><td>{_prose(row.paper)}</td>"
        f"<td>{_prose(row.ours)}</td></tr>"
        for row in report.outcome.rows
    )
    return (
        "<table class='figures'><thead><tr><th></th><th>paper</th><th>ours</th></tr></thead>"
        f"<tbody>{lines}</tbody></table>"
    )


def _checks(report: Report) -> str:
    lines = "".join(
        f"<li>{_mark(check.holds)} {_prose(check.statement)} "
        f"<span class='evidence'>{_prose(check.evidence)}</span></li>"
        for check in report.outcome.checks
    )
    return f"<h3>What must show</h3><ul class='checks'>{lines}</ul>"


def _parameters(parameters: dict[str, Any]) -> str:
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in parameters.items()
    )
    return f"<details><summary>Parameters</summary><dl>{lines}</dl></details>"


def _colophon(reports: list[Report]) -> str:
    """Describe how the results were made; usually the same for all experiments."""
    seen: dict[str, list[str]] = {}
    for report in reports:
        told = report.circumstances
        versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
        line = f"Seed {told['seed']}; {versions}; {told['platform']}"
        seen.setdefault(line, []).append(told["date"])
    lines = "".join(
        f"<p class='small'>{escape(line)}; {escape(min(dates))} to {escape(max(dates))}.</p>"
        for line, dates in seen.items()
    )
    total = sum(report.circumstances["seconds"] for report in reports)
    return (
        f"<footer><h2>How this was made</h2><p><code>kernelstream reproduce all</code>, "
        f"{total:.0f} seconds in all. Every run is one pass over the data, each row predicted "
        f"before it is learned, unless the parameters say otherwise.</p>{lines}</footer>"
    )


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kernelstream: the papers’ experiments, run again</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { --paper: #fdfcfa; --ink: #22262a; --soft: #6b7278; --line: #e2ded6; --accent: #0b6e99;
  --good: #2e7d4f; --bad: #b5442a; --card: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16191c; --ink: #e4e2dd; --soft: #9aa1a7; --line: #33383d; --accent: #6cbfe3;
    --good: #6fc391; --bad: #ee8a6f; --card: #f6f5f2; }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1.06rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, serif; }
main { max-width: 64rem; margin: 0 auto; padding: 4rem 1.5rem 6rem; }
header, nav, section > *, footer > * { max-width: 44rem; margin-left: auto; margin-right: auto; }
h1 { font-size: clamp(2rem, 5vw, 3.1rem); line-height: 1.1; margin: .2rem 0 1rem;
  letter-spacing: -.015em; }
h2 { font-size: 1.7rem; line-height: 1.2; margin-top: .1rem; margin-bottom: .4rem; }
h3 { font-size: 1.02rem; margin-top: 1.6rem; margin-bottom: .3rem; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 3px; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.kicker { color: var(--soft); font: .85rem/1.4 system-ui, sans-serif; margin-bottom: 0; }
.lead { font-size: 1.22rem; }
.score { font-size: 1.1rem; }
.score b { font-size: 1.9rem; color: var(--accent); }
.quick { border-left: 3px solid var(--bad); padding-left: .8rem; }
.question { font-style: italic; font-size: 1.15rem; margin-top: 0; }
section { border-top: 1px solid var(--line); margin-top: 4rem; padding-top: 1.4rem; }
section > figure { margin: 1.4rem auto; }
figure img { display: block; width: 100%; height: auto; background: var(--card); padding: .5rem;
  border-radius: 6px; border: 1px solid var(--line); }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .97rem;
  font-variant-numeric: tabular-nums; }
th { text-align: left; font: 600 .8rem system-ui, sans-serif; color: var(--soft); }
td, th { padding: .32rem .9rem .32rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.figures td:nth-child(n+2), .figures th:nth-child(n+2) { text-align: right; padding-right: 0;
  padding-left: 1rem; }
.figures td:nth-child(2) { color: var(--soft); }
.marks { white-space: nowrap; }
.yes, .no { display: inline-block; width: 1.2em; text-indent: 0;
  font: 700 .95em system-ui, sans-serif; }
.yes { color: var(--good); }
.no { color: var(--bad); }
ul { padding-left: 1.2rem; margin-top: .2rem; }
.checks { list-style: none; padding-left: 0; }
.checks li { margin: .35rem 0; padding-left: 1.6rem; text-indent: -1.6rem; }
.evidence { color: var(--soft); }
.evidence::before { content: "— "; }
details { margin-top: 1.2rem; }
summary { cursor: pointer; color: var(--accent); font: .95rem system-ui, sans-serif; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: .6rem 0 0;
  font-size: .95rem; }
dt { color: var(--soft); }
dd { margin: 0; }
.small { color: var(--soft); font-size: .88rem; }
footer { border-top: 1px solid var(--line); margin-top: 4rem; padding-top: 1.4rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print { body { background: white; } section { break-inside: avoid; } }
"""

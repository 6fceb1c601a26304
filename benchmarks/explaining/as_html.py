"""What CAPTURE and ALOHa matched, and what DCScore's judge said, as a page: one file that loads nothing, no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...metrics.aloha.matching import ObjectMatching
from ...metrics.capture.matching import KINDS, KindScore
from ...metrics.capture.metric import Explanation
from ...metrics.dcscore.questions import FactCheck
from ..tables.html_text import html_text
from .rows import (
    ARITHMETIC,
    COLUMNS,
    HOWS,
    FactRow,
    MatchRow,
    ScoreExplanation,
    Side,
    caption_rows,
    fact_meanings,
    left_out,
    object_meanings,
    object_rows,
    oracle_rows,
    rows,
    spans,
    trial_rows,
)

_STYLE = """\
:root { color-scheme: light dark; --text: #1b1b1b; --page: #fff; --line: #c9c9c9; --soft: #595959;
  --equal: #d3f0d6; --synonym: #cfe8f7; --similar: #fbeab0; --unmatched: #f9d2cd; --left-out: #e9e9e9; }
@media (prefers-color-scheme: dark) { :root { --text: #ececec; --page: #161616; --line: #4a4a4a; --soft: #b0b0b0;
  --equal: #1d4a24; --synonym: #174560; --similar: #574510; --unmatched: #66231b; --left-out: #363636; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
.captions { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 0 2rem; }
mark, .how { color: inherit; border-radius: .2em; padding: .05em .25em; }
.equal { background: var(--equal); } .synonym { background: var(--synonym); }
.similar { background: var(--similar); } .unmatched { background: var(--unmatched); }
.left-out { background: var(--left-out); }
.true, .had { background: var(--equal); } .divided { background: var(--similar); }
.false, .missing { background: var(--unmatched); }
mark.equal { border-bottom: 2px solid; } mark.synonym { border-bottom: 2px dashed; }
mark.similar { border-bottom: 2px dotted; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.of, .remark { color: var(--soft); font-size: .9rem; }
dl.legend { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; margin: 1rem 0; }
dl.legend dd { margin: 0; }"""


def as_html(explained: ScoreExplanation, *, title: str = "") -> str:
    """Return an explanation as a page.

    Args:
        explained: The explanation.
        title: What the caption is of (a task and a sample).
    """
    candidate, references, found = explained.candidate, explained.references, explained.found
    texts = _texts(candidate, references)
    if isinstance(found, ObjectMatching):
        body = [*texts, *_table("Objects", object_rows(found))]
        return _page(explained.label, title, found.value, "", object_meanings(found), body)
    if isinstance(found, FactCheck):
        body = [
            *texts,
            *_facts("Facts of the caption", caption_rows(found)),
            *_facts("Facts of the oracle", oracle_rows(found)),
            *_trials(found),
            f"<p>{html_text(ARITHMETIC)}</p>",
        ]
        return _page(explained.label, title, found.value, ", the mean of both F1", fact_meanings(found), body)
    mean = sum(one.value for one in found) / len(found)
    said = f", the mean over {len(found)} references" if len(found) > 1 else ""
    body = []
    for number, (reference, explanation) in enumerate(zip(references, found, strict=True), 1):
        body += _section(candidate, reference, explanation, number)
    return _page(explained.label, title, mean, said, HOWS, body)


def _texts(candidate: str, references: Sequence[str]) -> Iterator[str]:
    """Yield a caption beside its references."""
    yield "<div class='captions'>"
    yield f"<div><h2>Candidate</h2><p>{html_text(candidate)}</p></div>"
    if references:
        texts = "".join(f"<p>{html_text(one)}</p>" for one in references)
        yield f"<div><h2>References</h2>{texts}</div>"
    yield "</div>"


def _facts(caption: str, found: Sequence[FactRow]) -> Iterator[str]:
    yield f"<table><caption>{caption}</caption><thead><tr><th scope='col'>standing</th>"
    yield "<th scope='col' class='number'>number</th><th scope='col'>fact</th><th scope='col'>answers</th></tr></thead>"
    yield "<tbody>"
    for one in found:
        yield (
            f"<tr><td>{_badge(one.standing)}</td><td class='number'>{one.number}</td><td>{html_text(one.text)}</td>"
            f"<td class='remark'>{html_text(one.said)}</td></tr>"
        )
    yield "</tbody></table>"


def _trials(account: FactCheck) -> Iterator[str]:
    heads = "".join(f"<th scope='col' class='number'>{column}</th>" for column in COLUMNS)
    yield f"<table><caption>Trials</caption><thead><tr><th scope='col'>answers</th>{heads}</tr></thead><tbody>"
    for name, numbers in trial_rows(account):
        cells = "".join(f"<td class='number'>{number:.4f}</td>" for number in numbers)
        yield f"<tr><th scope='row'>{name}</th>{cells}</tr>"
    yield "</tbody></table>"


def _page(label: str, title: str, value: float, said: str, hows: Mapping[Any, str], body: Sequence[str]) -> str:
    heading = label + (f": {title}" if title else "")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html_text(heading)}</title>",
            f"<style>\n{_STYLE}\n</style></head>",
            "<body><main>",
            f"<h1>{html_text(heading)}</h1>",
            f"<p><strong>{value:.4f}</strong>{said}</p>",
            "<dl class='legend'>",
            *(f"<dt>{_badge(how)}</dt><dd>{html_text(meaning)}</dd>" for how, meaning in hows.items()),
            "</dl>",
            *body,
            "</main></body></html>\n",
        ]
    )


def _section(candidate: str, reference: str, explanation: Explanation, number: int) -> Iterator[str]:
    yield f"<section aria-labelledby='reference-{number}'>"
    yield f"<h2 id='reference-{number}'>Reference {number}: {explanation.value:.4f}</h2>"
    yield "<div class='captions'>"
    yield f"<div><h3>Candidate</h3>{_caption(candidate, explanation, 'candidate')}</div>"
    yield f"<div><h3>Reference</h3>{_caption(reference, explanation, 'reference')}</div>"
    yield "</div>"
    yield _scores(explanation)
    for kind in KINDS:
        yield from _table(f"{kind.capitalize()}s", rows(explanation.matched[kind]))
    if others := left_out(explanation):
        yield from _table("Left out", others)
    yield "</section>"


def _caption(text: str, explanation: Explanation, side: Side) -> str:
    parts = (
        html_text(one.text)
        if one.how is None
        else f"<mark class='{_class(one.how)}' title='{one.how}'>{html_text(one.text)}</mark>"
        for one in spans(text, explanation, side)
    )
    return f"<p>{''.join(parts)}</p>"


def _scores(explanation: Explanation) -> str:
    def row(kind: str, matched: KindScore) -> str:
        numbers = (matched.precision, matched.recall, matched.f1)
        cells = "".join(f"<td class='number'>{number:.4f}</td>" for number in numbers)
        sizes = f"{len(matched.pairing.candidate)} / {len(matched.pairing.reference)}"
        return f"<tr><th scope='row'>{kind}s</th>{cells}<td class='number'>{sizes}</td></tr>"

    heads = "".join(
        f"<th scope='col' class='number'>{head}</th>" for head in ("precision", "recall", "F1", "candidate / reference")
    )
    body = "".join(row(kind, explanation.matched[kind]) for kind in KINDS)
    return (
        f"<table><caption>Scores</caption><thead><tr><th scope='col'>kind</th>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _table(caption: str, found: Sequence[MatchRow]) -> Iterator[str]:
    if not found:
        yield f"<p><strong>{caption}</strong>: none on either side</p>"
        return
    yield f"<table><caption>{caption}</caption><thead><tr>"
    yield "<th scope='col'>match</th><th scope='col'>candidate</th><th scope='col'>reference</th>"
    yield "<th scope='col' class='number'>cosine</th></tr></thead><tbody>"
    for row in found:
        whose = f" <span class='of'>of the {row.of}</span>" if row.of != "both" else ""
        last = "" if row.similarity is None else f"{row.similarity:.3f}"
        if row.remark:
            last = f"<span class='remark'>{html_text(row.remark)}</span>"
        yield (
            f"<tr><td>{_badge(row.how)}{whose}</td><td>{html_text(row.candidate)}</td>"
            f"<td>{html_text(row.reference)}</td><td class='number'>{last}</td></tr>"
        )
    yield "</tbody></table>"


def _badge(how: str) -> str:
    return f"<span class='how {_class(how)}'>{how}</span>"


def _class(how: str) -> str:
    return how.replace(" ", "-")

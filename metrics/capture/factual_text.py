"""Reads what a FACTUAL parser writes: ``( dog , is , brown ) , ( dog , on , grass )``.

Equal to FactualSceneGraph 0.5.0 and 0.7.3 (clean_graph_string, graph_string_to_object), oddities included.
"""

from __future__ import annotations

from .scene_graphs import Graph

_PROMPT = "Generate Scene Graph:"


def read_graph(text: str) -> Graph | None:
    """Return the graph that a text stands for, or None if it has no parentheses at all.

    A fact is (object, is, attribute) or (subject, relation, object); an attribute of digits is a count and
    says nothing here. Facts of another size count only if the text has no other: as an object.
    """
    if "(" not in text and ")" not in text:
        return None
    facts = _facts(_spaced(text.replace(_PROMPT, "")))
    written = facts_in(" , ".join(f"( {fact} )" for fact in facts))
    # The released code writes the facts out and reads them again; parentheses inside of a fact come off
    # differently in the last one.
    last = len(facts) - 1
    facts = [
        f"( {fact}{' )' if number == last else ' '}".strip().strip("()") for number, fact in enumerate(facts)
    ] or [""]
    objects: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for fact in facts:
        parts = [part.strip() for part in fact.split(",")]
        if len(parts) == 3:
            subject, relation, other = parts
            objects[subject] = None
            if relation != "is":
                objects[other] = None
                relations[subject, relation, other] = None
            elif not other.isdigit():
                attributes[subject, other] = None
        elif len(facts) == 1:
            objects[parts[0]] = None
    return Graph(tuple(objects), tuple(attributes), tuple(relations), written=written)


def facts_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the parts of each fact of a graph that is written out, as FactualSceneGraph 0.7.3 compares them.

    Nothing is dropped for its size, and nothing is read anew. A text that says nothing has no fact.
    """
    facts = _spaced(text).split(") , (") if text.strip() else []
    bare = (fact.strip("()").strip() for fact in facts)
    return tuple(dict.fromkeys(tuple(part.strip() for part in fact.split(",")) for fact in bare))


def _spaced(text: str) -> str:
    for symbol in "(),":
        text = text.replace(symbol, f" {symbol} ")
    return " ".join(text.split())


def _facts(text: str) -> list[str]:
    """Return the different facts in the order of their letters; one that was cut off at the end is dropped."""
    facts = text.split(") ,")
    if not text.endswith(")"):
        facts = facts[:-1] if len(facts) > 1 else [facts[0].split(",")[0]]
    return sorted({bare for fact in facts if (bare := fact.strip().strip("()").strip())})

"""Readers of captions: word lists, which need no other package, or a spaCy pipeline with WordNet."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from ....errors import DataError, MetricError
from ....metrics.capture import wordnet
from ....metrics.words.spacy_pipelines import load_pipeline
from .captions import Kind, ReadCaption, Token, WordLists

if TYPE_CHECKING:
    from spacy.tokens import Doc  # an extra
    from spacy.tokens import Token as Parsed

_TOKENS = re.compile(r"(['’](?:s|t|re|ve|ll|d|m)\b|\w+(?:['’-]\w+)*|[^\w\s])(\s*)")
_SIDES = ("left", "right", "top", "bottom")
_BEFORE_SIDES = frozenset({*_SIDES, "upper", "lower", "far", "front", "back"})
_DASHES = frozenset({"-", "–", "/"})
_ARTICLES = frozenset({"a", "an", "the", "its", "his", "their"})
_JOINING = frozenset({"and", "while", "as", "who", "that", "which", "or", "but", "'s", "’s"})
_OBJECTS = frozenset({"article", "number", "adjective", "noun"})
_ADJECTIVE_ENDS = ("ed", "ful", "ous", "less")
_FEW = frozenset({"a few", "a couple", "a lot", "a bit", "a little"})
_LINKING = frozenset({"is", "are", "was", "were"})
_STOPS = frozenset({".", "!", "?"})
_DENIALS = frozenset({"not", "never", "no", "cannot"})


class ListsReader:
    """Knows only the words of the lists, and finds only unambiguous uses.

    A noun phrase is an article or number, adjectives and nouns. A word of no list counts as a noun behind an article at
    the end of a phrase; otherwise phrases with it are skipped. So are quotes and names: words with a capital inside a
    sentence. Fewer captions are changed than with a parser, and very few incorrectly.

    Args:
        words: The lists.
    """

    def __init__(self, words: WordLists) -> None:
        self._words = words

    def said(self) -> str:
        """Return the name of the word lists."""
        return f"word lists ({self._words.digest[:12]})"

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        return map(self._read, texts)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return the other nouns of a noun's group."""
        return [self._words.sisters.get(noun, ())]

    def _read(self, text: str) -> ReadCaption:
        pieces: list[tuple[str, str]] = _TOKENS.findall(text)
        low = [word.lower() for word, _ in pieces]
        kinds = self._kinds(pieces, low)
        tokens: list[Token] = []
        for at, ((word, space), small, kind) in enumerate(zip(pieces, low, kinds, strict=True)):
            lemma = self._words.singular.get(small, small) if kind == "noun" else small
            plural = kind == "noun" and small != lemma
            head = kind == "noun" and self._begins(low, kinds, at) and self._ends(low, kinds, at + 1, plural)
            tokens.append(Token(word, space, kind, lemma, plural, head))
        return ReadCaption(
            tuple(tokens),
            tuple(self._relations(tokens, low, kinds)),
            tuple(self._phrases(tokens, low, kinds)),
            tuple(self._modifiers(tokens, low, kinds)),
            tuple(self._negations(low, tokens)),
        )

    def _kinds(self, pieces: Sequence[tuple[str, str]], low: Sequence[str]) -> list[Kind]:
        """Return the kind of each word; from the last to the first, as adjectives depend on the next word."""
        words, names = self._words, _names([word for word, _ in pieces])
        kinds: list[Kind] = ["other"] * len(low)
        for at in reversed(range(len(low))):
            word, following = low[at], kinds[at + 1] if at + 1 < len(low) else "mark"
            if not any(map(str.isalnum, word)):
                kinds[at] = "mark"
            elif at in names:
                kinds[at] = "name"
            elif word in words.articles and word not in words.numbers:
                kinds[at] = "article"
            elif word in words.auxiliaries:
                kinds[at] = "auxiliary"
            elif word in words.prepositions:
                kinds[at] = "preposition"
            elif (word in words.numbers or word.isdecimal()) and following in ("noun", "adjective"):
                # "About 17 people" may be 19; "one or two" would be "one or four".
                kinds[at] = "other" if at and low[at - 1] in words.estimates else "number"
            elif (
                word in words.colours
                or word in words.spellings
                or (following in ("noun", "adjective") and self._is_adjective(low, at))
            ):
                kinds[at] = "adjective"
            elif (word in words.singular and self._is_noun(low, at)) or (
                following in ("mark", "preposition", "auxiliary")
                and low[at + 1 : at + 2] != [","]
                and self._is_unknown_noun(low, at)
            ):
                kinds[at] = "noun"
        return kinds

    def _is_noun(self, low: Sequence[str], at: int) -> bool:
        """Return whether a possible verb is in a noun's position, such as after an article."""
        words, before = self._words, low[at - 1] if at else ""
        if low[at] not in words.negated:
            return before not in ("which", "who", "to")
        return before in words.articles | words.adjectives | words.prepositions

    def _is_unknown_noun(self, low: Sequence[str], at: int) -> bool:
        """Return whether a word of no list is in a noun's position: the last of "the red yo-yo"."""
        words, word, first = self._words, low[at], at
        known = (words.singular, words.negated, words.adjectives, words.not_denied)
        if any(word in listed for listed in known) or len(word) < 3:
            return False
        if word.endswith(("ed", "en", "ing", "ly", "self", "selves")):
            return False
        while first and low[first - 1] in words.adjectives:
            first -= 1
        before = low[first - 1] if first else ""
        return before in _ARTICLES or before in words.numbers[1:] or (before == "with" and first < at)

    def _is_adjective(self, low: Sequence[str], at: int) -> bool:
        """Return whether a word before a noun or adjective is an adjective, of the lists or by its form ("ragged")."""
        words, word, before = self._words, low[at], low[at - 1] if at else ""
        if word in words.adjectives or word in words.singular:
            return word in words.adjectives
        is_like_one = "-" in word or word.endswith(_ADJECTIVE_ENDS)
        return is_like_one and any(before in listed for listed in (words.articles, words.adjectives, words.numbers))

    def _begins(self, low: Sequence[str], kinds: Sequence[Kind], at: int) -> bool:
        """Return whether no unknown word before an index belongs to the word there, as "mint" to "green"."""
        before = low[at - 1] if at else ""
        return (
            not at
            or kinds[at - 1] in ("article", "number", "adjective", "preposition", "auxiliary")
            or (kinds[at - 1] == "mark" and before not in _DASHES)
            or (
                kinds[at - 1] == "other"
                and (before in _JOINING or before in self._words.negated or before.endswith(_ADJECTIVE_ENDS))
            )
        )

    def _ends(self, low: Sequence[str], kinds: Sequence[Kind], end: int, plural: bool = False) -> bool:
        """Return whether a noun phrase, perhaps a plural, ends before an index."""
        return (
            end == len(low)
            or kinds[end] in ("preposition", "auxiliary")
            or (kinds[end] == "mark" and low[end] not in _DASHES)
            or (kinds[end] == "other" and (low[end] in _JOINING or self._is_verb(low[end], plural)))
        )

    def _is_verb(self, word: str, plural: bool) -> bool:
        """Return whether a word behind a noun is a verb, and no other noun: "runs", "running", of plurals "run"."""
        return word in self._words.verbs and (plural or word.endswith(("s", "ing")))

    def _noun_phrase(self, kinds: Sequence[Kind], start: int) -> int:
        """Return the index after a noun phrase that begins at an index, or the same index if none does."""
        at = start
        for wanted in ("article", "number", "adjective"):
            while at < len(kinds) and kinds[at] == wanted:
                at += 1
        first = at
        while at < len(kinds) and kinds[at] == "noun":
            at += 1
        return at if at > first else start

    def _phrases(self, tokens: Sequence[Token], low: Sequence[str], kinds: Sequence[Kind]) -> Iterator[tuple[int, int]]:
        """Yield phrases that nothing else needs.

        They follow an object or an intransitive verb, before the end of a sentence or a verb; or begin a sentence,
        before a comma.
        """
        words, lemmas = self._words, [token.lemma for token in tokens]
        # What the first sentence names, a caption is about: leaving it out elsewhere loses little.
        topic = lemmas[: next((at for at, word in enumerate(low) if word in _STOPS), len(low))]
        for start in range(len(low)):
            end = self._noun_phrase(kinds, start + 1)
            if low[start] not in words.left_out_with or end == start + 1:
                continue
            begins = not start or low[start - 1] in _STOPS
            after_object = not begins and tokens[start - 1].head and lemmas[start - 1] not in words.parts
            after_verb = (
                not begins and low[start - 1] in words.intransitive and "to" not in low[max(0, start - 2) : start]
            )
            if not (begins or after_object or after_verb):
                continue
            while end < len(low) and low[end] == "of" and (more := self._noun_phrase(kinds, end + 1)) > end + 1:
                end = more
            noun, (following, then) = tokens[end - 1], (*low[end : end + 2], ".", ".")[:2]
            sentence = max((at + 1 for at in range(start) if low[at] in _STOPS), default=0)
            if begins:
                is_whole = following == "," and then not in {".", *_JOINING, *words.prepositions, *words.auxiliaries}
            else:
                is_whole = (
                    following in (".", "!", "while")
                    or (following == "," and then in ("with", "which", "while", "where"))
                    or (after_object and kinds[end] == "auxiliary")
                    or (after_object and following.endswith("s") and following in words.verbs)
                )
            known = lemmas[sentence:start] if start < len(topic) else [*topic, *lemmas[sentence:start]]
            is_object = noun.head and noun.lemma in words.objects and noun.lemma not in known
            if is_whole and is_object and 2 * (end - start) <= len(low):
                yield start, end + begins

    def _relations(self, tokens: Sequence[Token], low: Sequence[str], kinds: Sequence[Kind]) -> Iterator[int]:
        places = self._words.objects | self._words.parts
        for at, word in enumerate(low):
            if low[at : at + 3] == ["in", "front", "of"]:
                word = "in front of"
            elif word not in self._words.opposites:
                continue
            before, follows = low[at - 1] if at else "", tokens[at + 1 : at + 2]
            # "From left to right", "above the clouds below": one of the two is not enough.
            if self._words.opposites[word] in low[max(0, at - 8) : at + 9]:
                continue
            if word in _SIDES:
                begins = before in self._words.articles or before in _BEFORE_SIDES
                ends = not follows or low[at + 1] == "of" or follows[0].kind == "mark" or follows[0].lemma in places
                if kinds[at] == "noun" and begins and ends:
                    yield at
            elif kinds[at] == "preposition" and before not in ("and", "or", "from", "not", "directly", "right", "just"):
                first = at + 1 + word.count(" ")
                end = self._noun_phrase(kinds, first)
                if end > first and tokens[end - 1].head and self._words.has_opposite(word, tokens[end - 1].lemma):
                    yield at

    def _modifiers(
        self, tokens: Sequence[Token], low: Sequence[str], kinds: Sequence[Kind]
    ) -> Iterator[tuple[int, int]]:
        for at, kind in enumerate(kinds):
            if kind == "adjective" and self._begins(low, kinds, at):
                end = at + 1
                while end < len(kinds) and kinds[end] in ("adjective", "noun"):
                    end += 1
                if tokens[end - 1].kind == "noun" and self._ends(low, kinds, end, tokens[end - 1].plural):
                    yield at, end - 1

    def _negations(self, low: Sequence[str], tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
        if _DENIALS.intersection(low) or any(word.endswith(("n't", "n’t")) for word in low):
            return
        for at, token in enumerate(tokens):
            before = tokens[at - 1] if at else None
            follows = tokens[at + 1].kind if at + 1 < len(tokens) else "mark"
            following = low[at + 1] if at + 1 < len(low) else ""
            # "As if it was", "has fallen"
            if "if" in low[max(0, at - 6) : at] or (low[at] in ("has", "have") and follows not in _OBJECTS):
                continue
            if token.kind == "auxiliary" and follows != "mark":
                # "Not a few" are more; "can" is a noun, too.
                is_clear = (
                    following not in self._words.not_denied
                    and " ".join(low[at + 1 : at + 3]) not in _FEW
                    and (before is None or before.lemma not in ("as", "what"))
                )
                if is_clear and (low[at] in _LINKING or (low[at] == "can" and following == "be")):
                    yield at, f"{token.text} not"
            elif (
                token.kind == "other"
                and low[at] in self._words.verbs
                and (denied := self._words.negated[low[at]])
                and before is not None
                and before.kind == "noun"
                and follows not in ("noun", *(["mark"] if denied.startswith("do") else []))
                and before.plural >= denied.startswith("do ")
                and before.plural <= (not denied.startswith("does "))
            ):
                yield at, denied


def _names(words: Sequence[str]) -> set[int]:
    """Return the indices of words in quotes, and of those with a capital inside a sentence."""
    names: set[int] = set()
    quoted = False
    for at, word in enumerate(words):
        if word in ("“", "”", '"'):
            quoted = word == "“" or (word == '"' and not quoted)
        elif quoted or (word[:1].isupper() and at and words[at - 1] not in (".", "!", "?", ":", "”", '"')):
            names.add(at)
    return names


_FINITE = {"VBZ": "does", "VBP": "do", "VBD": "did"}


class SpacyReader:
    """Reads by a dependency parse.

    Args:
        pipeline: An English pipeline with tagger, parser and lemmatizer: a package's name or a folder.
        words: The lists.
    """

    def __init__(self, pipeline: str, words: WordLists) -> None:
        self._name = pipeline
        self._words = words

    def said(self) -> str:
        """Return the versions of spaCy, of the pipeline and of WordNet.

        Raises:
            DataError: One is missing; the hint says what to install.
        """
        pipeline, sisters = self._loaded
        meta = pipeline.meta
        return (
            f"spaCy {importlib.metadata.version('spacy')}, {meta['lang']}_{meta['name']} {meta['version']}, "
            f"WordNet ({sisters.digest[:12]}) and word lists ({self._words.digest[:12]})"
        )

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        for doc in self._loaded[0].pipe(texts, batch_size=64):
            yield read_doc(doc, self._words)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return nouns of the same parent, and of the same grandparent, in WordNet."""
        return self._loaded[1].sisters(noun)

    @cached_property
    def _loaded(self) -> tuple[Any, WordNetSisters]:
        try:
            pipeline = load_pipeline(self._name, "the checklist's reader 'spacy'", "the task's 'pipeline'")
            return pipeline, WordNetSisters()
        except MetricError as error:
            hint = f"{error.hint} Or set 'protocol: {{reader: lists}}', which needs neither."
            raise DataError(error.message, hint) from error


CaptionReader = ListsReader | SpacyReader
"""Finds the tokens of captions that rules change."""


def read_doc(doc: Doc, words: WordLists) -> ReadCaption:
    """Return the tokens of a parsed caption that rules may change.

    Args:
        doc: The caption, with tags, parts of speech, lemmas and dependencies.
        words: The lists.
    """
    return ReadCaption(
        tuple(
            Token(
                token.text,
                token.whitespace_,
                _kind(token, words),
                token.lemma_.lower(),
                token.tag_ == "NNS",
                token.dep_ != "compound" and all(child.dep_ != "compound" for child in token.children),
            )
            for token in doc
        ),
        tuple(token.i for token in doc if _is_relation(token, words)),
        tuple(_parsed_phrases(doc, words)),
        tuple(
            (token.i, token.head.i)
            for token in doc
            if token.dep_ == "amod" and token.tag_ == "JJ" and token.head.pos_ == "NOUN" and not _is_joined(token)
        ),
        tuple(negation for token in doc if (negation := _negated(token)) is not None),
    )


def _kind(token: Parsed, words: WordLists) -> Kind:
    word = token.lower_
    if token.is_punct or token.is_space:
        return "mark"
    if _is_joined(token):
        return "other"
    if token.pos_ in ("ADJ", "NOUN") and (word in words.colours or word in words.spellings):
        return "adjective"
    if token.tag_ == "JJ" or (word in words.materials and token.dep_ in ("amod", "compound")):
        return "adjective"
    if token.tag_ in ("NN", "NNS"):
        return "noun"
    return "number" if token.pos_ == "NUM" and token.dep_ == "nummod" else "other"


def _is_relation(token: Parsed, words: WordLists) -> bool:
    if token.lower_ not in words.opposites:
        return False
    if token.lower_ in _SIDES:
        return token.pos_ in ("NOUN", "ADJ")
    objects = [child for child in token.children if child.dep_ == "pobj"]
    # "on top of", "on the left": the side is what says where.
    return token.pos_ == "ADP" and any(
        child.lower_ not in _SIDES and words.has_opposite(token.lower_, child.lemma_.lower()) for child in objects
    )


def _parsed_phrases(doc: Doc, words: WordLists) -> Iterator[tuple[int, int]]:
    for token in doc:
        head = token.head
        if token.dep_ != "prep" or head.i >= token.i or head.pos_ == "AUX" or head.lower_ in words.particles:
            continue
        if not any(child.dep_ == "pobj" and child.pos_ == "NOUN" for child in token.children):
            continue
        subtree = [word.i for word in token.subtree]
        if doc[subtree[-1]].is_punct:
            subtree.pop()
        start, end = subtree[0], subtree[-1] + 1
        if start == token.i and end - start == len(subtree) and 2 * (end - start) <= len(doc):
            yield start, end


def _is_joined(token: Parsed) -> bool:
    """Return whether a hyphen makes a token a part of a longer word ("high-angle")."""
    after = token.nbor(1).text if not token.whitespace_ and token.i + 1 < len(token.doc) else ""
    before = token.nbor(-1) if token.i else None
    return after == "-" or (before is not None and before.text == "-" and not before.whitespace_)


def _negated(token: Parsed) -> tuple[int, str] | None:
    """Return the verb of a sentence and its negation, unless the sentence is negated already."""
    if any(child.dep_ == "neg" for word in (token, token.head) for child in word.children):
        return None
    helpers = [child for child in token.children if child.dep_ in ("aux", "auxpass")]
    finite = token.tag_ in (*_FINITE, "MD")
    first = token.dep_ in ("aux", "auxpass") and token.i == min(
        child.i for child in token.head.children if child.dep_ in ("aux", "auxpass")
    )
    if finite and (first or (token.lemma_ == "be" and not helpers)):
        return token.i, f"{token.text} not"
    if token.pos_ != "VERB" or helpers:
        return None
    if token.tag_ in _FINITE and any(child.dep_ == "nsubj" for child in token.children):
        return token.i, f"{_FINITE[token.tag_]} not {token.lemma_}"
    if token.tag_ == "VBG" and token.dep_ in ("ROOT", "acl"):
        return token.i, f"not {token.text}"
    return None


_PHYSICAL = frozenset({5, 6, 8, 11, 13, 15, 17, 18, 20, 27})
"""WordNet's lexicographer files of animals, artefacts, bodies, events, food, places, objects, persons, plants and
substances (lexnames(5WN))."""


class WordNetSisters:
    """Finds sister nouns of a noun, by the first sense of both.

    Raises:
        MetricError: WordNet is missing or cannot be read.
    """

    def __init__(self) -> None:
        database = wordnet.load(wordnet.find())
        self.digest = database.digest
        self._index, self._data = database.index["noun"], database.data["noun"]

    @lru_cache(maxsize=50_000)  # noqa: B019 - one instance per run
    def sisters(self, noun: str) -> tuple[tuple[str, ...], ...]:
        """Return the nouns below a noun's parents, and those below its grandparents; only visible things.

        Args:
            noun: A lemma; other forms have none.

        Returns:
            Nouns of the same lexicographer file whose first sense is that synset, sorted.
        """
        sense = self._first_sense(noun)
        if sense is None or self._file(sense) not in _PHYSICAL:
            return ()
        parents = self._related(sense, "@")
        grandparents = [grandparent for parent in parents for grandparent in self._related(parent, "@")]
        return self._below(parents, sense), self._below(grandparents, sense)

    def _below(self, parents: list[str], sense: str) -> tuple[str, ...]:
        below = {child for parent in parents for child in self._related(parent, "~")} - {sense}
        alike = [other for other in below if self._file(other) == self._file(sense)]
        return tuple(sorted({n for other in alike for n in self._names(other) if self._first_sense(n) == other}))

    def _first_sense(self, lemma: str) -> str | None:
        line = self._index.get(lemma)
        if line is None:
            return None
        fields = line.split()
        return fields[-int(fields[2])]

    def _file(self, sense: str) -> int:
        return int(self._data[sense].split(maxsplit=2)[1])

    def _names(self, sense: str) -> list[str]:
        fields = self._data[sense].split()
        names = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        # Of a plural ("bars") there is no other plural, and no singular behind "a".
        return [name for name in names if name.isalpha() and name.islower() and (name[-1] != "s" or name[-2:] == "ss")]

    def _related(self, sense: str, pointer: str) -> list[str]:
        """Return the senses that one points to; see wndb(5WN)."""
        fields = self._data[sense].partition("|")[0].split()
        first = 4 + 2 * int(fields[3], 16) + 1
        return [fields[at + 1] for at in range(first, len(fields) - 3, 4) if fields[at] == pointer]

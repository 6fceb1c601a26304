"""The rules of the Penn Treebank tokeniser, in order.

A description of what ``PTBTokenizer`` of Stanford CoreNLP 3.4.1 accepts, learnt from its published
grammar and from experiments with the program, in the notation of ``ptb``. What can make no
difference to the tokens of a caption without punctuation is left out: full stops that are read twice, as
end of an abbreviation and of the sentence; opening quotation marks; line ends; other standards.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class TokenRule:
    """A kind of token.

    Attributes:
        pattern: Its pattern; behind a ``/``, a lookahead, which is not part of the token.
        make: The token for the text that was matched; empty if there is none.
    """

    pattern: str
    make: Callable[[str], str] = str


# The list of pycocoevalcap. Tokens are lower-cased before, so "-lrb-" and its like are not removed; every
# published number was made that way.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)


# ---- characters --------------------------------------------------------------------------------------

_WORDS: dict[str, str] = yaml.load(
    Path(__file__).with_name("ptb_words.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


def _characters(ranges: str) -> frozenset[str]:
    """Return the characters of ranges such as ``"41-5a 61"``."""
    bounds = [part.partition("-") for part in ranges.split()]
    return frozenset(chr(c) for a, _, b in bounds for c in range(int(a, 16), int(b or a, 16) + 1))


_NEWER_LETTERS, _NEWER_DIGITS, _WORD_SIGNS = (_characters(_WORDS[name]) for name in ("letters", "digits", "word_signs"))


def _is_letter(character: str) -> bool:
    return unicodedata.ucd_3_2_0.category(character)[0] == "L" or character in _NEWER_LETTERS


def _is_digit(character: str) -> bool:
    return character in _NEWER_DIGITS or (
        unicodedata.ucd_3_2_0.category(character) == "Nd"
        # The digits of Ethiopia were numbers of another kind by then.
        and not "\u1369" <= character <= "\u1371"
    )


CHARACTERS: dict[str, Callable[[str], bool]] = {
    "letter": _is_letter,
    "digit": _is_digit,
    "wordletter": lambda character: _is_letter(character) or character in _WORD_SIGNS,
}
"""The named sets of characters, each as a test of one."""


# ---- pieces ------------------------------------------------------------------------------------------


def _any_of(words: str) -> str:
    """Return the pattern of any of a list of words."""
    return "|".join(_WORDS[words].split())


PIECES: dict[str, str] = {
    "blank": r"[ \t\u00a0\u2000-\u200a\u3000]",
    # U+0085 is a line end to the rules on what follows, but an ellipsis as a token.
    "space": r"[ \t\u00a0\u2000-\u200a\u3000\n\u0085]",
    # Words. Accents may be entities: "caf&eacute;".
    "wletter": r"{wordletter}|&[aeiouAEIOU](acute|grave|uml);",
    "walnum": r"{wletter}|{digit}",
    "word": r"{wletter}({walnum})*([.!?]{wletter}({walnum})*)*",
    "alnum": r"{letter}|{digit}",
    "apos": r"['\u0092\u2019]|&apos;",
    "apos_char": r"['\u0092\u2019]",
    # Quotation marks found in the place of apostrophes.
    "aposlike": r"{apos}|[`\u0091\u2018\u201b]",
    "aposlike_char": r"['\u0092\u2019`\u0091\u2018\u201b]",
    "hyphen": r"[\-_\u058a\u2010\u2011]",
    "clitic": r"[msdMSD]|re|ve|ll",
    # What may stand before "n't": ends in another letter than n.
    "before_not": r"[A-Za-z\xad]*[A-MO-Za-mo-z][\xad]*",
    # Numbers.
    "number": r"{digit}+|{digit}*([.:,\xad\u066b\u066c]{digit}+)+",
    "short": r"[0-9]{2,4}",
    "phone_gap": r"[\- \xa0]",
    # Acronyms.
    "us": r"(Canada|Sino|Korean|EU|Japan|non)-U\.S|U\.S\.-(U\.K|U\.S\.S\.R)",
    "acronym": r"[A-Za-z](\.[A-Za-z])*|{us}",
    "long_acronym": r"[A-Za-z](\.[A-Za-z])+|{us}",
    "then_lower_case": _any_of("then_lower_case"),
    "then_capitals": _any_of("then_capitals") + "|{acronym}",
    "before_numbers": _any_of("before_numbers"),
    "starter": _any_of("starter") + "|{tag}",
    # Markup.
    "tag_name": r"[A-Za-z][A-Za-z0-9_:.\-]*",
    "tag_value": r"""'[^']*'|"[^"]*\"""",
    "tag": (
        r"<([!?][A-Za-z\-][^>\r\n]*"
        r"|{tag_name}([ ]+({tag_name}|{tag_name}[ ]*=[ ]*({tag_value})))*[ ]*\/?"
        r"|\/{tag_name})[ ]*>"
    ),
    # Addresses.
    "in_host": r"""[^ \t\n\f\r"<>|.!?(){},]""",
    # From "," to "_" in the order of ASCII: digits and capitals too.
    "in_common_host": r"""[^ \t\n\f\r"`'<>|.!?(){},-_$]""",
    "in_path": r"""[^ \t\n\f\r"<>|()]""",
    "ends_path": r"""[^ \t\n\f\r"<>|.!?(){},\-]""",
    "in_mailbox": r"""[^ \t\n\f\r"<>|()\xa0{}]""",
    "in_mail_host": r"""[^ \t\n\f\r"<>|(){}.\xa0]""",
    "file_type": _any_of("file_type"),
    # Compounds.
    "thing": r"([dDoOlL]({aposlike})({alnum}))?({alnum})+({hyphen}([dDoOlL]({aposlike})({alnum}))?({alnum})+)*",
    "hyphenated": r"[A-Za-z0-9][A-Za-z0-9.,\xad]*(-([A-Za-z0-9\xad]+|({long_acronym})\.))+",
    "ampersand": r"&|&amp;",
    "joined": r"[A-Z]+(([+&]|&amp;)[A-Z]+)+",
    "hyphens_allowed": r"[A-Za-z0-9]+(-[A-Za-z]+){0,2}",
    "sentence_mark": r"[,;:\u3001]",
    "double_quote": '"|&quot;',
    "curly": r"[`\u2018-\u201f\u0091-\u0094\u2039\u203a\xab\xbb]",
}
"""Patterns that others refer to."""


# ---- tokens ------------------------------------------------------------------------------------------

_TO_QUOTES = str.maketrans(
    dict.fromkeys("\u0091\u2018\u201b\u2039", "`")
    | dict.fromkeys("\u0092\u2019\u203a", "'")
    | dict.fromkeys("\u0093\u201c\xab", "``")
    | dict.fromkeys("\u0094\u201d\xbb", "''")
)
_TO_FRACTIONS = str.maketrans({"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})
# The currency signs that the Treebank's time had no code for.
_TO_CURRENCY = str.maketrans({"¢": "cents", "£": "#"} | dict.fromkeys("\x80¤\u20a0€", "$"))
_TO_BRACKETS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})
_AMPERSAND = re.compile("&amp;", re.IGNORECASE)


def _always(token: str) -> Callable[[str], str]:
    return lambda _: token


def _quotes(text: str) -> str:
    # In capitals the entities are quotation marks too, but stay as they are.
    return text.replace("&apos;", "'").replace('"', "''").replace("&quot;", "''").translate(_TO_QUOTES)


def _without_soft_hyphens(text: str) -> str:
    return text.replace("\xad", "") or "-"


def _ampersands(text: str) -> str:
    return _AMPERSAND.sub("&", text)


def _no_break(text: str) -> str:
    return text.replace(" ", "\xa0")


def _brackets(text: str) -> str:
    return text.translate(_TO_BRACKETS)


_WORD_BEFORE_CLITIC = tuple(
    TokenRule(f"{{word}}/({apostrophe})({clitic})", _without_soft_hyphens)
    for apostrophe in ("{apos_char}", "&apos;")
    for clitic in ("[msdMSD]", "re|ve|ll")
)
_WORD_BEFORE_NOT = tuple(
    TokenRule(f"{{before_not}}/n({apostrophe})t", _without_soft_hyphens) for apostrophe in ("{aposlike_char}", "&apos;")
)

RULES: tuple[TokenRule, ...] = (
    TokenRule(r"c\+\+"),
    TokenRule("(c|f)#"),
    # Words that are two: "can not", "'t was", "gon na".
    TokenRule("can/not"),
    TokenRule("'t/was"),
    TokenRule("'t/is"),
    TokenRule("(gon|wan)/na"),
    TokenRule("got/ta"),
    TokenRule("(lem|gim)/me"),
    TokenRule("{tag}", _no_break),
    TokenRule(r"&(MD|mdash|ndash);|[\u0096\u0097\u2013\u2014\u2015]", _always("--")),
    TokenRule("&amp;", _ampersands),
    TokenRule("&(HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);"),
    *_WORD_BEFORE_CLITIC,
    *_WORD_BEFORE_NOT,
    TokenRule("{word}", _without_soft_hyphens),
    # Words with an apostrophe that stay whole.
    TokenRule(
        "({apos})n({apos})?|(l|d|j|Dunkin|somethin|ol)({apos})|({apos})(em|[2-9]0s|till?|cause)"
        "|[A-HJ-XZn]({aposlike}){letter}{2}{letter}*"
        "|{letter}+[aeiouyAEIOUY]({aposlike})[aeiouA-Z]{letter}*"
        r"|cont'd\.?|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l|O({aposlike})o"
    ),
    TokenRule("y({apos})/{letter}"),
    TokenRule(r"https?:\/\/[^ \t\n\f\r\"<>|(){}]+{ends_path}"),
    TokenRule(
        r"(www\.({in_host}+\.)+[a-zA-Z]{2,4}|({in_common_host}+\.)+(com|net|org|edu))"
        r"(\/{in_path}+{ends_path})?"
    ),
    TokenRule(r"(&lt;|<)?[a-zA-Z0-9]{in_mailbox}*@({in_mail_host}+\.)*{in_mail_host}+(&gt;|>)?"),
    TokenRule("@[a-zA-Z_][a-zA-Z_0-9]*|#({wletter})+"),
    TokenRule("({apos})({clitic})/[^A-Za-z]", _quotes),
    TokenRule("n({aposlike})t/[^A-Za-z]", _quotes),
    # A date.
    TokenRule(r"{digit}{1,2}[\-\/]{digit}{1,2}[\-\/]{digit}{2,4}"),
    TokenRule(r"[\-+]?({number})", _without_soft_hyphens),
    TokenRule(r"[\u207a\u207b\u208a\u208b]?([\u2070\xb9\xb2\xb3\u2074-\u2079]+|[\u2080-\u2089]+)"),
    # Fractions, "2 1/2" too, with a no-break space.
    TokenRule(r"({digit}{1,4}[\- \xa0])?{digit}{1,4}(\\?\/|[\u2044]){digit}{1,4}", _no_break),
    TokenRule(r"[\xbc-\xbe\u2153-\u215e]", lambda text: text.translate(_TO_FRACTIONS)),
    TokenRule(
        r"-(RRB|LRB|RCB|LCB|RSB|LSB)-|C\.D\.s|pro-|anti-|S({ampersand})(P-500|Ls)|Cap({apos})n|c({apos})est",
        _ampersands,
    ),
    # Alternatives: "and/or".
    TokenRule(r"{hyphens_allowed}(\\?\/{hyphens_allowed}){1,2}"),
    TokenRule(r"[A-Z]*\$|#"),
    TokenRule(
        r"[\x80\xa2-\xa5\u060b\u0e3f\u20a0\u20a4\u20ac\uffe0\uffe1\uffe5\uffe6]",
        lambda text: text.translate(_TO_CURRENCY),
    ),
    TokenRule(r"[A-Za-z]/\.{space}+({starter}){space}"),
    # Abbreviations with their full stop.
    TokenRule(r"({before_numbers})\./{digit}"),
    TokenRule(r"({before_numbers})\./{space}{digit}"),
    TokenRule(r"(pt[eyEY]|co)\./{blank}(ltd|lim)"),
    TokenRule(r"({then_lower_case})\./.."),
    TokenRule(r"({then_capitals})\."),
    TokenRule(r"({acronym})/{space}"),
    # The years of "'98".
    TokenRule("({apos})[0-9][0-9]/{space}"),
    # File names.
    TokenRule(r"({walnum})+(\.({walnum})+)*\.({file_type})/({space}|[.?!,])"),
    TokenRule(r"({word})\./{sentence_mark}", _without_soft_hyphens),
    # Telephone numbers.
    TokenRule(
        r"(\([0-9]{2,3}\)[ \xa0]?|(\+\+?)?({short}{phone_gap})?{short}{phone_gap})"
        r"[0-9]{3,4}{phone_gap}?[0-9]{3,5}"
        r"|((\+\+?)?{short}\.)?{short}\.[0-9]{3,4}\.[0-9]{3,5}",
        lambda text: _brackets(_no_break(text)),
    ),
    TokenRule(r"{double_quote}", _quotes),
    TokenRule("<|&lt;", _always("<")),
    TokenRule(">|&gt;", _always(">")),
    # Faces.
    TokenRule(r"[<>]?[:;=][\-o*']?[()DPdpO\\{@|\[\]]/[^A-Za-z0-9]", _brackets),
    TokenRule(
        # The first is a slip of the program: it takes all up to a "<".
        r"[\^x=~<>]\.\[\^x=[^<]*<>\]|[\-\^x=~<>']_[\-\^x=~<>']"
        r"|\([\-\^x=~<>'][_.]?[\-\^x=~<>']\)|\([\^x=~<>']-[\^x=~<>'`]\)",
        _brackets,
    ),
    TokenRule(r"\{", _always("-LCB-")),
    TokenRule(r"\}", _always("-RCB-")),
    TokenRule(r"\[", _always("-LSB-")),
    TokenRule(r"\]", _always("-RSB-")),
    TokenRule(r"\(", _always("-LRB-")),
    TokenRule(r"\)", _always("-RRB-")),
    TokenRule("-+", lambda text: "--" if len(text) in (3, 4) else text),
    TokenRule(r"\.{3,5}|(\.[ \xa0]){2,4}\.|[\u0085\u2026]", _always("...")),
    TokenRule("@+|#+|_+"),
    TokenRule(r"\*+|(\\\*){1,3}"),
    TokenRule("{sentence_mark}"),
    TokenRule("[?!]+"),
    TokenRule(r"[.=\/\xa1\xbf\u037e\u0589\u061f\u06d4\u0700-\u0702\u07fa\u3002]"),
    # Compounds.
    TokenRule(r"({hyphenated})\./{sentence_mark}", _without_soft_hyphens),
    TokenRule("{hyphenated}", _without_soft_hyphens),
    TokenRule(r"({thing})\./{sentence_mark}"),
    TokenRule("{thing}"),
    TokenRule(r"({joined})\./{sentence_mark}", _ampersands),
    TokenRule("{joined}", _ampersands),
    # Quotation marks. An opening one has another token than a closing one, but both are removed.
    TokenRule(r"'/[A-Za-z][^ \t\n\r\xa0]"),
    TokenRule("({apos})({clitic})", _quotes),
    TokenRule("{apos}|''|{curly}{1,2}", _quotes),
    TokenRule("<<|>>"),
    # Signs that stand alone.
    TokenRule(
        r"[+%&~\^|\\\xa6-\xa9\xac\xae-\xba\xd7\xf7\u0387\u05be\u05c0\u05c3\u05c6\u05f3\u05f4"
        r"\u0600-\u0603\u0606-\u060a\u060c\u0614\u061b\u061e\u066a\u066d\u0703-\u070d\u07f6-\u07f8"
        r"\u0964\u0965\u0e4f\u1fbd\u2016\u2017\u2020-\u2023\u2030-\u2038\u203b\u203e-\u2042\u2044"
        r"\u207a-\u207f\u208a-\u208e\u2100-\u214f\u2190-\u2bff\u3012\u30fb\uff01-\uff0f"
        r"\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
    ),
    # No tokens. Blanks are taken together: a no-break space may also begin an address.
    TokenRule("{blank}+|&nbsp;", _always("")),
)
"""The kinds of tokens; of two equally long matches the first counts. Text that none matches is no token."""

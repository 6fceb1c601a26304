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

# The program knows the letters and digits of Unicode 6.2 on any version of Python or Java. Python has
# Unicode 3.2 and its own version; these are the additions between 3.2 and 6.2, as ranges of code points.
_LETTERS_AFTER_3_2 = """
221 234-24f 2ae-2af 2b9-2ba 2c6-2cf 2ec 370-374 376-377 37b-37d 3cf 3f7-3ff 4cf 4f6-4f7 4fa-4ff 510-527 620
63b-63f 6ee-6ef 6ff 72d-72f 74d-77f 7ca-7ea 7f4-7f5 7fa 800-815 81a 824 828 840-858 8a0 8a2-8ac 904 971-977
979-97f 9bd 9ce a8c ae1 b35 b71 bb6 bd0 c3d c58-c59 cbd cf1-cf2 d29 d3a d3d d4e d7a-d7f ede-edf f6b-f6c f8c
1022 1028 103f 105a-105d 1061 1065-1066 106e-1070 1075-1081 108e 10c7 10cd 10f9-10fa 10fc-10ff 115a-115e
11a3-11a7 11fa-11ff 1207 1247 1287 12af 12cf 12ef 130f 131f 1347 1380-138f 1677-167f 18aa 18b0-18f5
1900-191c 1950-196d 1970-1974 1980-19ab 19c1-19c7 1a00-1a16 1a20-1a54 1aa7 1b05-1b33 1b45-1b4b 1b83-1ba0
1bae-1baf 1bba-1be5 1c00-1c23 1c4d-1c4f 1c5a-1c7d 1ce9-1cec 1cee-1cf1 1cf5-1cf6 1d00-1dbf 1e9c-1e9f
1efa-1eff 2090-209c 2132 213c 214e 2183-2184 2c00-2c2e 2c30-2c5e 2c60-2ce4 2ceb-2cee 2cf2-2cf3 2d00-2d25
2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6 2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce 2dd0-2dd6
2dd8-2dde 2e2f 312d 31b8-31ba 9fa6-9fcc a4d0-a4fd a500-a60c a610-a61f a62a-a62b a640-a66e a67f-a697
a6a0-a6e5 a717-a71f a722-a788 a78b-a78e a790-a793 a7a0-a7aa a7f8-a801 a803-a805 a807-a80a a80c-a822
a840-a873 a882-a8b3 a8f2-a8f7 a8fb a90a-a925 a930-a946 a960-a97c a984-a9b2 a9cf aa00-aa28 aa40-aa42
aa44-aa4b aa60-aa76 aa7a aa80-aaaf aab1 aab5-aab6 aab9-aabd aac0 aac2 aadb-aadd aae0-aaea aaf2-aaf4
ab01-ab06 ab09-ab0e ab11-ab16 ab20-ab26 ab28-ab2e abc0-abe2 d7b0-d7c6 d7cb-d7fb fa2e-fa2f fa6b-fa6d
fa70-fad9
"""
_DIGITS_AFTER_3_2 = """
7c0-7c9 be6 1090-1099 1946-194f 19d0-19d9 1a80-1a89 1a90-1a99 1b50-1b59 1bb0-1bb9 1c40-1c49 1c50-1c59
a620-a629 a8d0-a8d9 a900-a909 a9d0-a9d9 aa50-aa59 abf0-abf9
"""


def _characters(ranges: str) -> frozenset[str]:
    """Return the characters of ranges such as ``"41-5a 61"``."""
    bounds = [part.partition("-") for part in ranges.split()]
    return frozenset(chr(c) for a, _, b in bounds for c in range(int(a, 16), int(b or a, 16) + 1))


_NEWER_LETTERS = _characters(_LETTERS_AFTER_3_2)
_NEWER_DIGITS = _characters(_DIGITS_AFTER_3_2)


def _is_letter(character: str) -> bool:
    return unicodedata.ucd_3_2_0.category(character)[0] == "L" or character in _NEWER_LETTERS


def _is_digit(character: str) -> bool:
    return character in _NEWER_DIGITS or (
        unicodedata.ucd_3_2_0.category(character) == "Nd"
        # The digits of Ethiopia were numbers of another kind by then.
        and not "\u1369" <= character <= "\u1371"
    )


# Signs that count as letters, since words are written with them: the soft hyphen, phonetic and combining
# marks, vowel signs of the scripts of India and south-east Asia, Hebrew and Arabic points.
_WORD_SIGNS = (
    r"\u00ad\u0237-\u024f\u02c2-\u02c5\u02d2-\u02df\u02e5-\u037d\u0384\u0385\u03cf\u03f6\u03fc-\u03ff"
    r"\u0483-\u0487\u04cf\u04f6-\u04ff\u0510-\u0525\u055a-\u055f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5"
    r"\u05c7\u0615-\u061a\u063b-\u063f\u064b-\u065e\u0670\u06d6-\u06ef\u06fa-\u06ff\u070f\u0711\u0730-\u077f"
    r"\u07a6-\u07b1\u07ca-\u07f5\u07fa\u0900-\u0903\u093c\u093e-\u094e\u0951-\u0955\u0962\u0963\u0981-\u0983"
    r"\u09bc-\u09c4\u09c7\u09c8\u09cb-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c\u0a3e-\u0a4f\u0a81-\u0a83"
    r"\u0abc-\u0acf\u0b82\u0bbe-\u0bc2\u0bc6-\u0bc8\u0bca-\u0bcd\u0c01-\u0c03\u0c3e-\u0c56\u0d3e-\u0d44"
    r"\u0d46-\u0d48\u0e30-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ecd"
)
_IS_WORD_SIGN = re.compile(f"[{_WORD_SIGNS}]")


CHARACTERS: dict[str, Callable[[str], bool]] = {
    "letter": _is_letter,
    "digit": _is_digit,
    "wordletter": lambda character: _is_letter(character) or _IS_WORD_SIGN.match(character) is not None,
}
"""The named sets of characters, each as a test of one."""


# ---- pieces ------------------------------------------------------------------------------------------


def _any_of(words: str) -> str:
    """Return the pattern of any of the words, which blanks separate."""
    return "|".join(words.split())


# Names and words that end in a full stop. Capitals in brackets are not folded: "Miss." is a state, "miss."
# the end of a sentence.
_MONTHS_AND_DAYS = "Jan Feb Mar Apr Jun Jul Aug Sept? Oct Nov Dec Mon Tues? Wed Thu(rs)? Fri"
_STATES = """
    Ala Ariz [A]z [A]rk Calif Colo Conn Ct Dak [D]el Fla Ga [I]ll Ind Kans? Ky [L]a [M]ass Md Mich Minn
    [M]iss Mo Mont Neb Nev Okla [O]re [P]a Penn Tenn [T]ex Va Vt [W]ash Wisc? Wyo
"""
_COMPANIES = "Assn Bancorp Bhd Cos? Corp Inc Intl Ltd Plc Pp?t[ye]s? Rt Sys Univ"
_OTHERS_THEN_LOWER_CASE = "al Bldg Blvd Bros (Ed|Ph)\\.D Esq est etc ext Jr Rd seq sq Sr tel"
_TITLES = """
    Adj Adm Adv Asst Assoc Attys? Ave Brig Capt Col Co?mdr Cpl Det Drs? Ens Ft Gen Govs? Hon Insp Lieut Lt
    Maj Messrs [M]iss Mlle Mme Mr Mrs Ms Msgr Mt Pfc Pres Profs? Pvt Reps? Rev Sens? Sfc Sgt Spc Ste? Supts?
"""
_OTHERS_THEN_CAPITALS = "a\\.k\\.a Alex cf Cie Dept Elec Invt Jos M[ft]g Natl Ph TREAS vs Wm"
_BEFORE_NUMBERS = "art bldg ca figs? nos? op pp prop"

# A single letter and a full stop before one of these ends a sentence, and is no initial.
_SENTENCE_STARTERS = """
    [A] [A]bout [A]ccording [A]dditionally [A]fter [A]n [A]s [A]t [B]ut [E]arlier [H]e [H]er [H]ere
    [H]owever [I]f [I]n [I]t [L]ast [M]any [M]ore [M]r\\. [M]s\\. [N]ow [O]nce [O]ne [O]ther [O]ur [S]he
    [S]ince [S]o [S]ome [S]uch [T]hat [T]he [T]heir [T]hen [T]here [T]hese [T]hey [T]his [W]e [W]hat [W]hen
    [W]hile [Y]et [Y]ou
"""
_FILE_TYPES = """
    bat bmp c cgi class cpp dll docx? exe gif gz h html? jar java jpe?g mov mp3 pdf php pl png ppt ps py sql
    tar txt wav x xml zip
"""

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
    "then_lower_case": _any_of(f"{_MONTHS_AND_DAYS} {_STATES} {_COMPANIES} {_OTHERS_THEN_LOWER_CASE}"),
    "then_capitals": _any_of(f"{_TITLES} {_OTHERS_THEN_CAPITALS}") + "|{acronym}",
    "before_numbers": _any_of(_BEFORE_NUMBERS),
    "starter": _any_of(_SENTENCE_STARTERS) + "|{tag}",
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
    "file_type": _any_of(_FILE_TYPES),
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

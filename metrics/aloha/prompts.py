"""What a judge is asked, where the user gives no prompts: the released ones have no licence, these say the same."""

_RULES = """\
Write one thing a line, each line beginning with "- ". Name a thing once, in the singular, with the adjectives that it \
is given. Leave out what cannot be seen, such as sounds, light and feelings, and what something is only compared with. \
Write "(possibly)" behind a thing that is not certain. Where it is one thing or another, write both in one line with \
"or" between them. If there is nothing to list, write "-"."""

CANDIDATE = f"""\
List all things that can be seen in a picture, as its caption names them.
{_RULES}

Caption: Two girls wave from a red bus or a tram in the evening light, perhaps with a cat.
Objects:
- girl
- red bus or tram
- cat (possibly)

Caption: {{caption}}
Objects:"""
"""Of a candidate."""

REFERENCES = f"""\
List all things that can be seen in a picture, as any of its captions names them.
{_RULES}

Captions:
- A cook cuts carrots on a wooden board.
- Someone with a knife in a small kitchen.
Objects:
- cook
- carrot
- wooden board
- person
- knife
- small kitchen

Captions:
{{captions}}
Objects:"""
"""Of all references together."""

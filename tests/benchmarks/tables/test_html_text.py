from __future__ import annotations

import pytest

from capbench.benchmarks.tables.html_text import html_text


@pytest.mark.parametrize(
    "control", ["\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"]
)
def test_control_that_turns_a_text_around_is_shown_by_its_number(control: str):
    assert html_text(f"a{control}gpj.exe") == f"a[U+{ord(control):04X}]gpj.exe"


def test_letters_that_run_from_right_to_left_stay_and_markup_is_escaped():
    assert html_text("שלום \u200f\u2029 <b title='x'>") == "שלום \u200f\u2029 &lt;b title=&#x27;x&#x27;&gt;"
    assert html_text(None) == "None"

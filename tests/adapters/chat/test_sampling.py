from __future__ import annotations

from typing import Any

import pytest

from capbench.adapters.chat.messages import sampling_settings
from capbench.errors import AdapterError


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({}, {"temperature": 0.0}),
        ({"do_sample": False}, {"temperature": 0.0}),
        ({"do_sample": True, "temperature": 0}, {"temperature": 0}),
        (
            {"do_sample": False, "temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0},
            {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0},
        ),
        ({"temperature": 0.2}, {"temperature": 0.2}),
        ({"do_sample": True}, {}),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9}),
        ({"max_new_tokens": 64, "num_beams": 1}, {"temperature": 0.0, "max_tokens": 64}),
        ({"max_gen_toks": 64}, {"temperature": 0.0, "max_tokens": 64}),
        ({"max_new_tokens": 64, "max_tokens": 9}, {"temperature": 0.0, "max_tokens": 64}),
        ({"top_k": 0}, {"temperature": 0.0, "top_k": 0}),
        ({"until": "\n"}, {"temperature": 0.0, "stop": ["\n"]}),
        ({"until": ["", "###"]}, {"temperature": 0.0, "stop": ["###"]}),
        ({"until": [], "top_k": None}, {"temperature": 0.0}),
    ],
)
def test_settings_of_tasks_get_the_names_of_servers(given: dict[str, Any], settings: dict[str, Any]):
    assert sampling_settings(given) == settings


@pytest.mark.parametrize("given", [{"num_beams": 5}, {"length_penalty": 1.5}])
def test_setting_without_a_counterpart_is_refused(given: dict[str, Any]):
    with pytest.raises(AdapterError, match=next(iter(given))):
        sampling_settings(given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"do_sample": False, "temperature": 0.2}, "temperature=0.2 does nothing beside do_sample=False"),
        ({"do_sample": False, "top_p": 0.9}, "top_p=0.9 does nothing beside do_sample=False"),
        ({"top_p": 0.9}, "top_p=0.9 does nothing beside temperature=0"),
        ({"temperature": 0, "top_k": 5}, "top_k=5 does nothing beside temperature=0"),
        ({"do_sample": True, "temperature": 0, "min_p": 0.1}, "min_p=0.1 does nothing beside temperature=0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_and_both_named(given: dict[str, Any], named: str):
    with pytest.raises(AdapterError, match=named) as caught:
        sampling_settings(given)
    assert f"{named.partition('=')[0]}=null" in str(caught.value)

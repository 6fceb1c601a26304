"""What ``bench run`` says of a hub that refuses or fails, from an empty cache."""

import pytest
from hub_runs import DETAILCAPS, LLAVA, Bench
from hub_server import Fault, Hub

pytestmark = pytest.mark.costly

RUN = ("run", "--model", "llava-1.5", "--task", "detailcaps", "--metrics", "rouge_l", "--limit", "2")
LOG_IN = "Log in ('hf auth login') or set HF_TOKEN"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (401, ("asks for a token (401)", LOG_IN)),
        (403, ("your token has no access to it (403)", f"/datasets/{DETAILCAPS}")),
        (404, ("DetailCaps-4870",)),
        (429, ("answered 429 Too Many Requests, to be asked again after 7 s",)),
        (500, ("answered 500 Internal Server Error",)),
        ("slow", ("does not answer: ",)),
    ],
)
def test_data_set_that_the_hub_fails_to_give_is_named_with_the_status(
    fault: Fault, said: tuple[str, ...], bench: Bench, headline: Hub
):
    headline.fault(fault, f"/api/datasets/{DETAILCAPS}*", seconds=7)
    ended = bench(*RUN, HF_HUB_ETAG_TIMEOUT="1")
    assert ended.code == 1
    for text in (DETAILCAPS, *said):
        assert text in ended.err
    # Nothing of the model was fetched.
    assert headline.asked("*/resolve/*") == []


@pytest.mark.parametrize(("token", "said"), [("", "you are not logged in"), ("hf_other", "your token has no access")])
def test_gated_model_is_refused_with_the_page_of_its_terms(token: str, said: str, bench: Bench, headline: Hub):
    headline.repositories["model", LLAVA].gated = True
    headline.tokens = {"hf_other": set(), "hf_reader": {LLAVA}}
    ended = bench(*RUN, **({"HF_TOKEN": token} if token else {}))
    assert ended.code == 1
    assert f"{LLAVA}: it is gated, and {said}" in ended.err
    assert f"Accept its terms at {headline.address}/{LLAVA}" in ended.err


def test_absent_repositories_and_revisions_are_called_so(bench: Bench, headline: Hub):
    ended = bench(*RUN, "--model_args", "revision=v9")
    assert f"{headline.address}/{LLAVA} has no revision 'v9'" in ended.err
    del headline.repositories["model", LLAVA]
    ended = bench(*RUN)
    assert f"{LLAVA}: {headline.address} has no such repository" in ended.err


def test_download_that_breaks_off_is_called_so_and_goes_on_afterwards(bench: Bench, headline: Hub):
    headline.fault("cut", "*/model.safetensors")
    ended = bench(*RUN)
    assert ended.code == 1
    assert f"{LLAVA}: the download from {headline.address} broke off" in ended.err
    headline.mend()
    assert bench(*RUN).code == 0

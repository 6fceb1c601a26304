"""The headline command from an empty cache, again without the hub, and with other pictures on it."""

from pathlib import Path

import pytest
from hub_runs import DETAILCAPS, FACTUAL, LLAVA, Bench, write_detailcaps
from hub_server import Hub

pytestmark = pytest.mark.costly

HEADLINE = ("run", "--model", "llava-1.5", "--task", "detailcaps", "--limit", "4", "--output_path", "runs")


def test_headline_command_records_what_it_loaded_and_gives_it_again_without_the_hub(
    bench: Bench, headline: Hub, tmp_path: Path
):
    # Whatever the hub is like otherwise: what is wanted is asked for.
    headline.fault("slow", "/", seconds=60)
    ended = bench(*HEADLINE)
    first, fetched = ended.record, "fetched first ('bench fetch detailcaps capture llava-1.5' lists sizes)"
    assert fetched in ended.err
    commits = {name: repository.branches["main"] for (_, name), repository in headline.repositories.items()}
    parts = first["fingerprint_parts"]
    assert parts["model"]["checkpoint"] == f"{LLAVA}@{commits[LLAVA]}"
    assert parts["metrics"]["capture"]["checkpoint"] == f"commit {commits[FACTUAL]}"
    assert first["data_origin"] == f"hub:{DETAILCAPS}@{commits[DETAILCAPS]}"
    assert {"capture,none", "meteor,none", "cider,none"} <= set(first["results"]["detailcaps"])
    # All files are of the commits that were told first, and no conversion of the pickled T5 is asked for.
    assert headline.asked("*/resolve/main/*") == headline.asked("*/discussions*") == []

    count = len(headline.requests)
    other = tmp_path / "other"
    other.mkdir()
    (other / "meteor").symlink_to(tmp_path / "cache" / "meteor")
    ended = bench(*HEADLINE, HF_HUB_OFFLINE="1", BENCH_CACHE=str(other))
    again = ended.record
    assert "fetched first" not in ended.err
    assert len(headline.requests) == count
    for key in ("results", "fingerprint", "data_origin"):
        assert again[key] == first[key]

    # The same names, other pictures.
    headline.add(DETAILCAPS, write_detailcaps(tmp_path / "exchanged", first=100), "dataset")
    exchanged = bench(*HEADLINE, "--metrics", "rouge_l", BENCH_CACHE=str(tmp_path / "third")).record
    for key in ("documents_hash", "data_origin"):
        assert exchanged[key] != first[key]
    assert exchanged["fingerprint_parts"]["images"] != first["fingerprint_parts"]["images"]

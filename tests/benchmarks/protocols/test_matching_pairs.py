"""Matching by an encoder that scores image and text together, and texts that are one once they are cut."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from tiny_pairwise import make_tiny_blip, make_tiny_flava

import capbench
from capbench.adapters import ImageHandle, ScoredPairs
from capbench.adapters.encoders.hf_pairs import BlipItm
from capbench.adapters.encoders.pair_scores import RecordedPairs
from capbench.benchmarks.inputs.encoding import ScoredItems
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.running import runner as runner_file
from capbench.benchmarks.scale.shards import decode, encode
from capbench.benchmarks.tables.results import Run
from capbench.cli.main import main
from capbench.errors import AdapterError, UsageError
from capbench.metrics.vectors.features import PairScores


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_blip(tmp_path_factory.mktemp("blip"))


class Recording(BlipItm):
    """Remembers the scores that it gave, as rows of a file of them."""

    recorded: list[dict[str, Any]]

    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        for batch in super().pairs(images, texts):
            for at, scores in batch.scores.items():
                name = Path(str(images[at].source)).name
                of_image = zip(texts[at], scores.tolist(), strict=True)
                self.recorded.extend(
                    {"image": name, "box": images[at].box, "text": text, "score": score} for text, score in of_image
                )
            yield batch


@pytest.fixture(scope="module")
def encoder(blip: Path) -> Recording:
    recording = Recording(str(blip), max_tokens=64, device="cpu")
    recording.recorded = []
    return recording


def evaluate(encoder: Any, folder: Path, task: str, **settings: Any) -> Run:
    settings = {"data": {task: folder}, "skip_checks": True, "resamples": 0} | settings
    return capbench.evaluate(encoder, task, **settings)


def rows_of(run: Run, task: str) -> list[dict[str, Any]]:
    return [row for row in run[task].samples.to_pylist() if row["failure"] is None]


def score(encoder: BlipItm, folder: Path, row: dict[str, Any], texts: list[str]) -> np.ndarray:
    """Return the scores of the whole image of an entry with some texts, asked of the encoder itself."""
    picture = folder / "photos" / row["image"]
    (batch,) = encoder.pairs([ImageHandle(picture)], [texts])
    return batch.scores[0]


def whole_images(rows: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the entries that are no crops, with their places."""
    return [(at, row) for at, row in enumerate(rows) if row["id"].endswith("|base")]


@dataclass(frozen=True)
class Finished:
    """A run, and the scores that its encoder gave."""

    run: Run
    recorded: list[dict[str, Any]]


@pytest.fixture(scope="module")
def finished(encoder: Recording, dci: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    by_task = {}
    for task in ("dci_all_scm", "dci_all_neg"):
        encoder.recorded.clear()
        run = evaluate(encoder, dci, task, store=tmp_path_factory.mktemp("store") / "store.sqlite")
        by_task[task] = Finished(run, list(encoder.recorded))
    return by_task


@pytest.fixture(scope="module")
def runs(finished: dict[str, Finished]) -> dict[str, Run]:
    return {task: entry.run for task, entry in finished.items()}


def test_captions_of_a_block_compete_by_their_scores(runs: dict[str, Run], encoder: BlipItm, dci: Path):
    rows = rows_of(runs["dci_all_scm"], "dci_all_scm")
    assert len(rows) == 25
    assert {row["hit"] for row in rows} == {0.0, 1.0}
    for at, row in whole_images(rows):
        start = at // 8 * 8
        captions = [other["candidates"][0] for other in rows[start : start + 8]]
        scores, (rival,) = score(encoder, dci, row, captions), score(encoder, dci, row, [row["rival_caption"]])
        assert row["own"] == scores[at - start]
        assert row["rival"] == rival == np.delete(scores, at - start).max()
        assert row["hit"] == (int(scores.argmax()) == at - start)
    # The last block holds one entry.
    assert (rows[24]["rival"], rows[24]["rival_caption"], rows[24]["hit"]) == (None, None, 1)


def test_captions_stand_against_negatives_by_their_scores(runs: dict[str, Run], encoder: BlipItm, dci: Path):
    for _, row in whole_images(rows_of(runs["dci_all_neg"], "dci_all_neg")):
        scores = score(encoder, dci, row, [*row["candidates"], *row["negatives"]])
        assert (row["own"], row["rival"]) == (scores[0], scores[1:].max())
        assert row["rival_caption"] == row["negatives"][int(scores[1:].argmax())]
        assert row["hit"] == (scores[0] > scores[1:].max())


@pytest.mark.parametrize("task", ["dci_all_scm", "dci_all_neg"])
def test_scores_from_a_file_are_matched_as_those_of_the_model_that_gave_them(finished, dci, tmp_path, task: str):
    rows = finished[task].recorded
    file = tmp_path / "blip.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    again = evaluate(RecordedPairs(file), dci, task)[task]
    assert again.samples == finished[task].run[task].samples
    file.write_text("\n".join(map(json.dumps, rows[1:])))
    with pytest.raises(AdapterError, match=r"blip\.jsonl lacks 1 of \d+ pairs, first .*\.png"):
        evaluate(RecordedPairs(file), dci, task)


def test_blocks_do_not_depend_on_how_much_is_held_in_memory(runs, encoder, dci, monkeypatch):
    monkeypatch.setattr(runner_file, "SHARD_OF_IMAGES", 1)
    again = evaluate(encoder, dci, "dci_all_scm")
    assert again["dci_all_scm"].samples == runs["dci_all_scm"]["dci_all_scm"].samples


def test_image_that_breaks_off_is_left_out_whole_and_the_others_close_up(encoder: BlipItm, dci: Path, tmp_path: Path):
    folder = shutil.copytree(dci, tmp_path / "dci")
    photo = folder / "photos" / "sa_2.png"
    photo.write_bytes(photo.read_bytes()[:20_000])
    broken = evaluate(encoder, folder, "dci_all_scm")["dci_all_scm"]
    splits = json.loads((folder / "splits.json").read_text())
    splits["test"].remove("sa_2.json")
    (folder / "splits.json").write_text(json.dumps(splits))
    without = evaluate(encoder, folder, "dci_all_scm")["dci_all_scm"]
    kept = [row for row in broken.samples.to_pylist() if row["failure"] is None]
    assert kept == [row for row in without.samples.to_pylist() if row["failure"] is None]
    assert broken.record.documents.to_json() == {"original": 5, "effective": 4}
    (failure,) = [failure for failure in broken.record.failures if failure["stage"] == "image"]
    assert failure["samples"] == ["sa_2"]


def test_choices_whose_texts_are_one_when_cut_are_counted_and_named(blip: Path, dci: Path, runs: dict[str, Run]):
    short = BlipItm(str(blip), max_tokens=4, device="cpu")
    run = evaluate(short, dci, "dci_all_neg")["dci_all_neg"]
    same = []
    for row in rows_of({"dci_all_neg": run}, "dci_all_neg"):  # type: ignore[arg-type]
        (own,) = row["candidates"]
        mine, *others = (ids[:3] for ids in short.token_ids([own, *row["negatives"]]))
        if any(mine == other and own != text for other, text in zip(others, row["negatives"], strict=True)):
            same.append(row["id"])
            assert row["own"] == row["rival"]
    assert 0 < len(same) < 25
    (remark,) = [remark for remark in run.record.remarks if "once both are cut" in remark["reason"]]
    assert remark["count"] == len(same)
    assert run.record.truncation["neg"].identical == len(same)
    assert run.record.truncation["neg"].context_length == 4
    jsonschema.validate(json.loads(json.dumps(run.record.values)), json.loads(SCHEMA_PATH.read_text()))
    # Where a text that equals its negative is not cut, nothing is said.
    assert "identical" not in runs["dci_all_neg"]["dci_all_neg"].record.values["truncation"]["neg"]


def test_dual_encoder_has_them_counted_too(tiny_clip, dci: Path):
    from capbench.adapters.encoders.open_clip import OpenClipEncoder

    clip = OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")
    clip.context_length = 5
    run = evaluate(clip, dci, "dci_all_scm")["dci_all_scm"]
    assert run.record.truncation["scm"].identical > 0


def test_scores_of_pairs_survive_as_arrays():
    scored = ScoredItems(
        PairScores(np.float32([1, 2, 3]), {1: "is broken"}, {0: "first of 2 frames"}),
        np.array([False, True, False]),
        np.array([0, 7, 0]),
    )
    restored = decode(encode(scored))
    assert isinstance(restored, ScoredItems)
    assert restored.scores.values.tolist() == [1, 2, 3]
    assert (restored.scores.failures, restored.scores.remarks) == ({1: "is broken"}, {0: "first of 2 frames"})
    assert (restored.cut.tolist(), restored.seen.tolist()) == ([False, True, False], [0, 7, 0])
    assert not restored.is_whole


def test_metric_of_vectors_refuses_an_encoder_of_pairs(encoder: BlipItm, dci: Path):
    for metric in ("clip_s", "mid"):
        with pytest.raises(UsageError, match=r"is of family 'pairwise'.*\n.*itm_score"):
            capbench.evaluate(encoder, "flickr8k_expert", metrics=[metric])


@pytest.fixture(scope="module")
def flava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_flava(tmp_path_factory.mktemp("flava"))


@pytest.mark.parametrize(
    ("adapter", "task", "measure"), [("blip_itm", "shapes_dci_all_scm", "SCM"), ("flava", "shapes_dci_all_neg", "Neg")]
)
def test_run_from_the_command_line_counts_choices_that_are_equal_once_cut(
    adapter: str, task: str, measure: str, blip: Path, flava: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = {"blip_itm": blip, "flava": flava}[adapter]
    arguments = f"pretrained={folder},device=cpu,max_tokens=20"
    code = main(
        [
            *("run", "--model", adapter, "--model_args", arguments, "--task", task),
            *("--limit", "4", "--bootstrap", "0", "--output_path", str(tmp_path / "out")),
        ]
    )
    said = capsys.readouterr()
    assert code == 0
    (path,) = (tmp_path / "out").rglob("run.json")
    record = json.loads(path.read_text())
    same = record["truncation"][measure.lower()]["identical"]
    note = f"{same} choices of texts that are the same once cut to 20 tokens"
    assert note in said.out
    assert note in said.err

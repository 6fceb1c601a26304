"""An LVLM's detailed captions, from a checkpoint and a Parquet file to the table and the record."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import forked
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image
from tiny_capture import find_minilm, make_nltk_data, make_t5, make_wordnet
from tiny_clip import TinyClip

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.store.store import Store
from capbench.cli.main import main
from capbench.metrics import Context, Items, build_metric
from capbench.tasks.index import BUILTIN_FOLDER

REFERENCES = [
    ("A red car stands on a road.", "An automobile drives down the street."),
    ("Two dogs run over the grass. The sky is blue.", "The dogs are on the grass."),
    ("The sky is blue. Buildings stand near the building.", "Buildings stand under the sky."),
    ("A potted plant and traffic lights.", "The scene shows the lights."),
]
TOKENS = 12
MANY = 150


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (4, 5, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def write_parquet(path: Path, rows: int) -> Path:
    """Write images with their references, in the published layout."""
    table = []
    for n in range(rows):
        first, second = REFERENCES[n % len(REFERENCES)]
        table.append(
            {
                "source": "COCO",
                "image": f"image_{n}.jpg",
                "binary": jpeg(n),
                "GT_Caption_GPT4O": first,
                "GT_Caption_GPT4V": first,
                "GT_Caption_Gemini15Pro": second,
                **dict.fromkeys(("CogVLM", "ShareCaptioner", "LLaVA_v15"), "A dog."),
                "GPT4_Eval": json.dumps({"CogVLM": 3, "ShareCaptioner": 4, "LLaVA_v15": 2}),
            }
        )
    pa.parquet.write_table(pa.Table.from_pylist(table), path)
    return path


@pytest.fixture(scope="module")
def capture_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the settings of CAPTURE with small models, and MiniLM as its sentence encoder."""
    folder = tmp_path_factory.mktemp("capture")
    for name in ("t5", "nltk", "wordnet"):
        (folder / name).mkdir()
    return {
        "parser_model": str(make_t5(folder / "t5")),
        "encoder": str(find_minilm()),
        "nltk_data": str(make_nltk_data(folder / "nltk")),
        "wordnet": str(make_wordnet(folder / "wordnet")),
    }


Run = Callable[..., tuple[str, dict[str, Any], Any]]


@pytest.fixture
def run(tmp_path: Path, tiny_llava: Path, tiny_clip: TinyClip, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that calls ``bench run`` on a task like detailcaps with metrics and CAPTURE's settings.

    It gives what was printed, the record and the samples.
    """
    data = write_parquet(tmp_path / "few.parquet", 4)

    def run(task: str, *metrics: Any, **capture: Any) -> tuple[str, dict[str, Any], Any]:
        keys = {
            "include": f"{BUILTIN_FOLDER}/detailcaps/detailcaps.yaml",
            "task": task,
            "generation_kwargs": {"min_new_tokens": TOKENS, "max_new_tokens": TOKENS},
            "metric_list": [{"metric": "capture", **capture}, *metrics],
            "checks": {"documents": 4},
            "metadata": {"version": 1.0},
        }
        (tmp_path / f"{task}.yaml").write_text(json.dumps(keys))
        arguments = ["run", "--task", task, "--include_path", tmp_path, "--bootstrap", 20]
        arguments += ["--data", f"{task}={data}"]
        for folder in (one for one in capture.values() if isinstance(one, str) and Path(one).is_dir()):
            arguments += ["--allow_outside", folder]
        arguments += ["--model", "hf", "--model_args", f"pretrained={tiny_llava},device=cpu,name=tiny"]
        if metrics:
            encoder = f"pretrained={tiny_clip.open_clip_folder},device=cpu"
            arguments += ["--encoder", "open_clip", "--encoder_args", encoder]
        arguments += ["--store", tmp_path / "store.sqlite", "--output_path", tmp_path / "runs"]
        assert main([str(argument) for argument in arguments]) == 0
        (path,) = (tmp_path / "runs" / task).rglob("run.json")
        samples = pyarrow.parquet.read_table(path.parent / "samples.parquet").to_pandas()
        return capsys.readouterr().out, json.loads(path.read_text(encoding="utf-8")), samples

    return run


def test_captions_are_written_and_scored_by_one_command(
    run: Run, tmp_path: Path, tiny_clip: TinyClip, capture_settings: dict[str, str]
):
    whole = {"metric": "clip_f1", "parts": "whole"}
    printed, record, samples = run("few_details", "cider", "meteor", whole, **capture_settings)
    for label in ("CAPTURE", "CIDEr", "METEOR", "CLIP-F1 (whole image)"):
        assert label in printed
    jsonschema.validate(record, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert record["model_name"] == "tiny"
    assert record["metric_errors"] == []
    # Whether the small parser makes a graph of what random weights write can hang on the last bit of a sum.
    assert {one["stage"] for one in record["failures"]} <= {"metric"}
    assert record["generation"]["captions"] == 4
    assert record["generation"]["usage"]["completion_tokens"] == 4 * TOKENS
    assert record["metrics_left_out"] == {}

    captions, references = list(samples["candidate"]), list(map(tuple, samples["references"]))
    assert len(set(captions)) == 4
    assert references == REFERENCES
    # Each number is the metric's own of these captions.
    images = [ImageHandle(jpeg(n)) for n in range(4)]
    items = Items([*"0123"], captions, references, np.ones(4), images=images)
    encoder = OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu")
    settings = {"capture": capture_settings, "cider": {}, "meteor": {}, "clip_f1": {"parts": "whole"}}
    for name, its in settings.items():
        metric = build_metric(name, its)
        scores = metric.score(items, Context(encoder=encoder))
        np.testing.assert_allclose(samples[name], scores.values, atol=1e-6)
        value = record["results"]["few_details"][f"{name},none"]
        assert value == pytest.approx(metric.corpus(scores, items.weights), abs=1e-6)
    assert samples["clip_f1"].between(0, 1, inclusive="neither").all()


def captions_in(store: Path) -> int:
    if not store.is_file():
        return 0
    query = "SELECT COUNT(*) FROM entries JOIN producers ON producer = id WHERE fingerprint LIKE '%Llava%'"
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)) as db:
        try:
            return db.execute(query).fetchone()[0]
        except sqlite3.OperationalError:  # the tables are not there yet
            return 0


@pytest.mark.usefixtures("one_thread")
def test_run_killed_while_captioning_is_finished_by_the_next_which_asks_only_for_the_rest(
    tmp_path: Path, tiny_llava: Path
):
    store, data = tmp_path / "store.sqlite", write_parquet(tmp_path / "many.parquet", MANY)
    command = ["run", "--task", "detailcaps"]
    command += ["--model", "hf", "--model_args", f"pretrained={tiny_llava},device=cpu"]
    command += ["--gen_kwargs", f"min_new_tokens={TOKENS},max_new_tokens={TOKENS}", "--batch_size", "1"]
    command += ["--metrics", "length", "--skip_checks", "--data", f"detailcaps={data}"]
    command += ["--store", str(store), "--output_path", str(tmp_path / "runs")]
    first = forked.start(lambda: main(command))
    deadline = time.monotonic() + 120
    while captions_in(store) < 5:
        assert os.waitpid(first, os.WNOHANG) == (0, 0)
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(first, signal.SIGKILL)
    assert forked.end_of(first) == -signal.SIGKILL
    finished = captions_in(store)
    assert 0 < finished < MANY, "the run was not caught half way"
    assert not list((tmp_path / "runs").rglob("run.json"))
    with Store(store) as opened:
        assert opened.verify() == []

    def finish(store: Path) -> Any:
        return capbench.evaluate(
            "hf",
            ["detailcaps"],
            model_args=f"pretrained={tiny_llava},device=cpu",
            metrics=["length"],
            data={"detailcaps": data},
            generation_kwargs={"min_new_tokens": TOKENS, "max_new_tokens": TOKENS},
            store=store,
            resamples=0,
            skip_checks=True,
        )["detailcaps"]

    second = finish(store)
    assert second.record.generation["captions"] == MANY
    assert second.record.failures == []
    # As many tokens were written as the rest has.
    assert second.record.generation["usage"]["completion_tokens"] == (MANY - finished) * TOKENS
    assert captions_in(store) == MANY
    # Killed or not, the captions are the same.
    whole = finish(tmp_path / "another.sqlite")
    assert whole.record.generation["usage"]["completion_tokens"] == MANY * TOKENS
    assert whole.samples.column("candidate").equals(second.samples.column("candidate"))
    assert whole.record.results == second.record.results

"""``bench fetch`` from a hub, after which runs need none."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_runs import DETAILCAPS, LLAVA, Bench, write_detailcaps
from hub_server import Hub

pytestmark = pytest.mark.costly


@pytest.fixture
def released(headline: Hub, tmp_path: Path) -> Hub:
    """The hub with DetailCaps under the file name that its data card has, and weights that loaders do not take."""
    rows = write_detailcaps(tmp_path / "rows") / "data/test-00000-of-00001.parquet"
    folder = tmp_path / "released"
    folder.mkdir()
    shutil.copyfile(rows, folder / "DetailCaps-4870.parquet")
    headline.add(DETAILCAPS, folder, "dataset")
    return headline


def test_headline_command_runs_without_a_hub_after_one_command(bench: Bench, released: Hub, tmp_path: Path):
    command = "run", "--model", "llava-1.5", "--task", "detailcaps", "--limit", "2", "--output_path", "runs"
    assert "and fetched first ('bench fetch detailcaps capture llava-1.5'" in bench(*command, "--dry_run").out
    released.fault("cut", "*/large/*")
    released.fault("cut", "*model.safetensors")
    cut = bench("fetch", "detailcaps", "llava-1.5")
    assert cut.code == 1 and f"not fetched: hub model {LLAVA}: " in cut.err
    released.mend()
    done = bench("fetch", "detailcaps", "llava-1.5")
    assert done.code == 0, done.err
    assert "DetailCaps-4870: here" in done.out and "WordNet 3.0: here" in done.out
    assert "SHA-256" in done.out and "  model.safetensors: " in done.out
    released.close()
    assert bench("fetch", "detailcaps", f"{LLAVA}@main", HF_HUB_OFFLINE="1").code == 0
    record = bench(*command, HF_HUB_OFFLINE="1").record
    assert "capture,none" in record["results"]["detailcaps"]
    commit = released.repositories["dataset", DETAILCAPS].branches["main"]
    assert record["data_origin"] == f"DetailCaps-4870.parquet@{commit}"


def test_only_what_a_loader_takes_comes_and_a_wrong_checksum_is_refused(
    bench: Bench, hub: Hub, t5: Path, tmp_path: Path
):
    folder = tmp_path / "t5"
    shutil.copytree(t5, folder)
    weights = folder / "model.safetensors"
    for other in ("pytorch_model.bin", "tf_model.h5", "onnx/model.onnx"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_bytes(b"0" * 10)
    with weights.open("ab") as file:
        file.write(b"0" * 1_000_000)
    hub.add("roberta/large", folder)
    call = "fetch", "bertscore[model=roberta/large,num_layers=1]"
    (blob,) = (kept for kept in hub.blobs.values() if kept.is_large)
    content, _ = blob.path.read_bytes(), blob.sha256
    blob.path.write_bytes(content[:-1] + b"1")
    assert "does not have the expected checksum; it was deleted" in bench(*call).err
    blob.path.write_bytes(content)
    assert bench(*call).code == 0
    (snapshot,) = (tmp_path / "home/hub/models--roberta--large/snapshots").iterdir()
    assert {path.name for path in snapshot.iterdir()} == {path.name for path in t5.iterdir()}


def test_data_set_with_images_is_kept_where_its_task_finds_both(bench: Bench, hub: Hub, tmp_path: Path):
    folder = tmp_path / "composite"
    rows = pq.read_table(write_detailcaps(tmp_path / "rows") / "data/test-00000-of-00001.parquet").to_pylist()
    (folder / "data").mkdir(parents=True)
    composite = [
        {"img": {"bytes": row["binary"], "path": None}, "cand": "a dog", "refs": ["a dog runs"], "human_score": 1.0 + n}
        for n, row in enumerate(rows[:4])
    ]
    pq.write_table(pa.Table.from_pylist(composite), folder / "data/test-00000-of-00001.parquet")
    hub.add("yuwd/Composite", folder, "dataset")
    assert bench("fetch", "composite").code == 0
    run = "run", "--task", "composite", "--metrics", "clip_s", "--model", "shapes-clip", "--skip_checks"
    record = bench(*run, "--bootstrap", "0", HF_HUB_OFFLINE="1").record
    assert record["n-samples"]["composite"]["effective"] == 4
    assert not record["failures"]

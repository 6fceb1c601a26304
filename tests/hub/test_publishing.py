"""A captioner is trained from a hub, and published there by a process that has a token."""

import json
from pathlib import Path

import hub_server
import pytest
import yaml
from hub_server import Hub
from tiny_images import noise_png
from warm_python import run_python

pytestmark = pytest.mark.costly

TOKEN = "hf_a_token_that_may_write"
CHANGES = (
    "data.file=rows.jsonl",
    "model={name: hf, arguments: {pretrained: org/tiny-llava}}",
    "lora={kind: peft, rank: 2, targets: [q_proj, v_proj]}",
    'train=["*"]',
    "stop={steps: 1}",
    "objective={batch: 2, tokens: 8, prompt: Describe this image.}",
    "judge=[{task: shapes_captions, metrics: [length], limit: 2, generation_kwargs: {max_new_tokens: 4}}]",
)


def test_factors_are_trained_and_published_over_a_commit_of_their_model(
    hub: Hub, tiny_llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hub_server, "LARGE", 1_000)
    commit = hub.add("org/tiny-llava", tiny_llava)
    hub.tokens = {TOKEN: set()}
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(noise_png(number))
    rows = [{"image": f"{number}.png", "captions": ["a brown dog"]} for number in range(2)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    changes = [part for change in CHANGES for part in ("--set", change)]
    calls = [
        ["train", "captioner_xe", "--output", str(tmp_path / "tuned"), "--device", "cpu", *changes],
        ["export", "hub", "tuned", "--to", "me/tuned", "--dry_run"],
        ["export", "hub", "tuned", "--to", "me/tuned"],
    ]
    done = run_python(
        Path(__file__).with_name("several_calls.py"), folder=tmp_path,
        said=json.dumps({"calls": calls, "architectures": []}),
        environment=hub.environment(tmp_path / "home", BENCH_CACHE=str(tmp_path / "cache"), HF_TOKEN=TOKEN),
    )  # fmt: skip
    trained, dry, sent = (json.loads(line) for line in done.stdout.splitlines())
    assert [trained[0], dry[0], sent[0]] == [0, 0, 0], done.stdout
    base = {"pretrained": "org/tiny-llava", "revision": commit}
    alias = yaml.safe_load((tmp_path / "tuned" / "model.yaml").read_text())
    assert alias == {"adapter": "hf", **base, "peft": "./weights"}
    assert json.loads((tmp_path / "tuned" / "recipe.json").read_text())["model"] == {"name": "hf", "arguments": base}
    assert f"commit {commit} of org/tiny-llava" in trained[1]
    assert not (tmp_path / "tuned" / "weights" / "README.md").exists()

    (created,) = hub.asked("/api/repos/create")
    assert f"{created}" not in hub.requests[: hub.requests.index(created)]
    repository = hub.repositories["model", "me/tuned"]
    (files,) = repository.commits.values()
    assert repository.private and all(f"  {name}\n" in dry[1] for name in files)
    assert {"README.md", "model.yaml", "recipe.json", "scores.json", "adapter_model.safetensors"} < set(files)
    assert any(name.startswith("runs/after/") for name in files)
    assert not any("checkpoint" in name for name in files)
    assert yaml.safe_load(files["model.yaml"].path.read_text())["peft"] == "./"
    config = json.loads(files["adapter_config.json"].path.read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/tiny-llava", commit)
    for path in (file for file in (tmp_path / "tuned").rglob("*") if file.is_file()):
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content and TOKEN.encode() not in content, path

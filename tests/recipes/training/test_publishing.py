"""What of a training's folder may be passed on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.cli.main import main
from capbench.errors import DataError
from capbench.paths import without_folders
from capbench.recipes.training.publishing import files_for_hub

SECRET = "hf_" + "aB3" * 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a training leaves it."""
    texts = {
        "README.md": "A card: https://example.org/a/b, 3/4 and/or </s>.",
        "model.yaml": "adapter: pac\npretrained: ./weights/model.pth\n",
        "runs/after/run.json": "{}",
        "weights/model.pth": "/home/of/nobody",
        "weights/vocab.json": '{"/usr/bin/words": 0}',
        "checkpoints/checkpoint-1/trainer_state.json": str(tmp_path),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "last.safetensors").write_bytes(b"\xff")
    return tmp_path


def test_card_weights_and_results_are_sent_and_the_alias_finds_the_weights(folder: Path):
    files = files_for_hub(folder)
    assert set(files) == {"README.md", "model.yaml", "runs/after/run.json", "model.pth", "vocab.json"}
    assert files["model.yaml"] == b"adapter: pac\npretrained: ./model.pth\n"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda at: (at / "README.md").write_text(f"a\nb {at}/base"), "README.md:2: holds a path of a machine: "),
        (lambda at: (at / "recipe.json").write_text('{"a": "~/rows.jsonl"}'), "recipe.json:1: holds a path"),
        (lambda at: (at / "recipe.json").write_text(SECRET), "recipe.json:1: holds what looks like a secret"),
        (lambda at: (at / "a.md").write_text("word of my-own-server-1"), "a.md:1: holds what looks like a secret"),
        (lambda at: (at / "weights/x").symlink_to("/etc/hostname"), "weights/x: is a link that leads out"),
        (lambda at: (at / "model.yaml").unlink(), "has no model.yaml"),
    ],
)
def test_paths_secrets_and_links_are_refused(
    spoil: Callable[[Path], object], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_SERVER_PASSWORD", "my-own-server-1")
    spoil(folder)
    with pytest.raises(DataError) as caught:
        files_for_hub(folder)
    assert said in caught.value.message
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("--set data.file=/data/a/rows.jsonl", "--set data.file=rows.jsonl"),
        ("model={name: hf, arguments: {pretrained: /m/llava}}", "model={name: hf, arguments: {pretrained: llava}}"),
        ("captions:/a/b.jsonl and ~/c/d", "captions:b.jsonl and d"),
        ("https://hub.example/a/b, 1/2, and/or, /no_think, a/b/c", None),
    ],
)  # fmt: skip
def test_paths_of_a_machine_are_left_without_folders(text: str, left: str | None):
    assert without_folders({"x": [text]}) == {"x": [left or text]}


@pytest.mark.parametrize(
    "arguments", [["hub", "x"], ["data", "x", "--output", "y"], ["hub", "x", "--to", "a/b", "--format", "parquet"]]
)
def test_call_that_says_too_little_or_too_much_is_told_how(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["export", *arguments]) == 2
    assert f"bench export {arguments[0]} FOLDER --" in capsys.readouterr().err

"""The examples of the README do what it says."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import capbench
from capbench.adapters import adapters
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.statistics import statistics
from capbench.cli.main import main
from capbench.metrics import metrics

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each example run in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> None:
    """Write a file, and the folder that it lies in."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def paint(*paths: str) -> None:
    """Write small images."""
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48), "green").save(path)


def block(language: str, containing: str, of: str = "README.md") -> str:
    text = (ROOT / of).read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    (content,) = (text for text in blocks if containing in text)
    return content


def test_task_of_a_folder_of_images_runs_with_recorded_captions(tmp_path, capsys):
    write("my_photos/my_photos.jsonl", block("json", "someone cycles", of="docs/tasks.md"))
    write("my_photos/my_photos.yaml", block("yaml", "task: my_photos", of="docs/tasks.md"))
    paint("my_photos/photos/beach.jpg", "my_photos/photos/street.jpg")
    for name, words in (("a", "two dogs at the sea"), ("b", "a photo")):
        rows = [{"id": f"{image}.jpg", "caption": words} for image in ("beach", "street")]
        write(f"{name}.jsonl", "\n".join(map(json.dumps, rows)))
        run = ["run", "--include_path", "my_photos", "--task", "my_photos", "--model", f"captions:{name}.jsonl"]
        assert main([*run, "--encoder", "shapes-clip", "--metrics", "cider,clip_s"]) == 0
        assert re.search(r"CLIP-S.*\| +2 \|", capsys.readouterr().out)
    folders = sorted(map(str, tmp_path.glob("runs/my_photos/*/*")))
    assert main(["compare", *folders, "--metrics", "cider"]) == 0
    assert "| a - b" in capsys.readouterr().out
    assert main(["export", "latex", "runs/my_photos", "-o", "my_photos.tex"]) == 0
    assert "CIDEr" in (tmp_path / "my_photos.tex").read_text(encoding="utf-8")


def test_pairs_of_a_json_object_and_references_of_another_run_as_the_page_on_tasks_shows(capsys):
    write("my_tasks/pairs.json", block("json", "a dog rests on sand", of="docs/tasks.md"))
    write("my_tasks/refs.json", block("json", "rides past a shop", of="docs/tasks.md"))
    write("my_tasks/my_pairs.yaml", block("yaml", "task: my_pairs", of="docs/tasks.md"))
    assert main(["run", "--include_path", "my_tasks", "--task", "my_pairs", "--bootstrap", "0"]) == 0
    printed = capsys.readouterr()
    assert "2 of 2 documents scored" in printed.err
    # "dogs run on sand" shares two words of four with a reference, "a dog rests on sand" two of five: HC is right.
    accuracies = [line.split("|")[3:5] for line in printed.out.splitlines() if "accuracy" in line]
    assert [(name.strip(), float(value)) for name, value in accuracies[:3]] == [
        ("accuracy HC ↑", 1.0),
        ("accuracy HI ↑", 1.0),
        ("accuracy ↑", 1.0),
    ]


def test_caption_is_explained_as_the_readme_shows(capsys):
    command, printed = re.findall(r"^\$ bench (explain .*?[^\\])\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)[0]
    assert main(shlex.split(command.replace("\\\n", ""))) == 0
    shown = capsys.readouterr().out.splitlines()
    assert {line for line in printed.splitlines() if line != "..."} <= set(shown)


def test_table_of_the_readme_is_that_of_the_kept_run():
    (folder,) = (ROOT / "results/runs/flickr8k_expert").glob("*/*")
    results = {result.label: result for result in capbench.load_run(folder)["flickr8k_expert"].results}
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) to ([\d.]+) \| (\w) \|", README, flags=re.MULTILINE)
    assert len(rows) == 4
    for metric, *values, _ in rows:
        result = results[metric, "τ-c"]
        assert [f"{100 * value:.2f}" for value in (result.value, result.interval.low, result.interval.high)] == values


def test_python_example_of_the_readme_runs(capsys):
    carry_out(block("python", "import capbench"))
    printed = capsys.readouterr().out
    assert "ImageInWords-400" in printed
    assert "'cider'" in printed


@pytest.fixture
def registered_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a test registers."""
    for registry in (adapters, metrics, protocols, statistics):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


def carry_out(code: str) -> None:
    """Carry out an example as if it were a program."""
    exec(code, {"__name__": "__main__"})  # noqa: S102 - our own page


@pytest.mark.usefixtures("registered_names")
@pytest.mark.parametrize("containing", ["class WordOverlap", "Parrot", "mean_gap", "evaluate.combine"])
def test_examples_of_how_to_extend_run(containing: str, capsys):
    code = block("python", containing, of="docs/extending.md")
    carry_out(code)
    assert ("ImageInWords-400" in capsys.readouterr().out) == ("capbench.evaluate(" in code)


@pytest.mark.usefixtures("registered_names")
def test_protocol_of_how_to_extend_runs_with_its_task(capsys):
    shutil.copytree(ROOT / "docs/example", "my_tasks")
    assert block("yaml", "task: my_ratings") == Path("my_tasks/my_ratings.yaml").read_text(encoding="utf-8")
    write("my_tasks/my_ratings_begun.yaml", block("yaml", "first_words", of="docs/extending.md"))
    code = block("python", "FirstWords", of="docs/extending.md")
    code += '\nprint(run["my_ratings_begun"].samples["candidate"].to_pylist())'
    carry_out(code)
    printed = capsys.readouterr().out
    assert "CIDEr" in printed
    assert "['A small black star', 'A small black star'" in printed


@pytest.mark.usefixtures("registered_names")
def test_choice_of_how_to_extend_runs_with_its_task(capsys):
    write("my_tasks/odd.yaml", block("yaml", "odd_one_out", of="docs/extending.md"))
    write("my_tasks/odd.jsonl", block("json", "a bowl of soup", of="docs/extending.md"))
    carry_out(block("python", "OddOneOut", of="docs/extending.md"))
    assert re.search(r"ROUGE-L +\| accuracy ↑ +\| +1\.0000", capsys.readouterr().out)


# Captions all 200 images of the task.
@pytest.mark.costly
def test_caption_is_explained_as_the_page_on_captioners_says(tmp_path: Path):
    page = (ROOT / "docs/score_a_captioner.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^bench (explain [^#\n]*)", page, flags=re.MULTILINE)
    assert main(command.split()) == 0
    assert "</html>" in (tmp_path / "why.html").read_text(encoding="utf-8")


def test_task_of_questions_runs_with_recorded_answers(capsys):
    write("questions/questions.jsonl", block("json", "Is there a dog", of="docs/tasks.md"))
    write("questions/my_questions.yaml", block("yaml", "task: my_questions", of="docs/tasks.md"))
    answers = [{"question_id": 1, "answer": "Yes."}, {"question_id": 2, "answer": "There is no bus."}]
    write("answers.jsonl", "\n".join(map(json.dumps, answers)))
    run = ["run", "--include_path", "questions", "--task", "my_questions", "--model", "captions:answers.jsonl"]
    assert main(run) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Answers ↑ +\| accuracy +\| +1\.0000", printed)
    assert re.search(r"strictly read ↑ +\| accuracy +\| +0\.5000", printed)


def test_pictures_of_the_shapes_world_are_written_as_files(tmp_path, capsys):
    carry_out(block("python", "DrawnPicture", of="docs/shapes.md"))
    photos = sorted((tmp_path / "photos").iterdir())
    assert [photo.stem for photo in photos] == [str(number) for number in range(10)]
    assert {Image.open(photo).size for photo in photos} == {(128, 128)}
    assert len(capsys.readouterr().out.splitlines()) == 10


@pytest.mark.parametrize("containing", ["predictions=[", "clip_score.update", "capbench.reward"])
def test_examples_of_the_page_on_python_run(containing: str, capsys):
    carry_out(block("python", containing, of="docs/python.md"))
    printed = capsys.readouterr().out
    shown = {"predictions=[": "refclip_s", "clip_score.update": "tensor(", "capbench.reward": "[4.839"}
    assert shown[containing] in printed


def test_lines_for_users_of_other_libraries_give_the_numbers_of_pycocoevalcap():
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider

    gts = {"a": ["a dog runs on grass", "the dog is running"], "b": ["two cats sleep"], "c": ["a red bus", "a bus"]}
    res = {"a": ["a dog is running"], "b": ["two cats on a bed"], "c": ["a red bus on a road"]}
    refs, preds = list(gts.values()), [caption for (caption,) in res.values()]
    names = {"capbench": capbench, "gts": gts, "res": res, "preds": preds, "target": refs, "refs": refs}
    names |= {"candidates": preds, "mult_references": refs}
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")

    def cells(library: str) -> list[list[str]]:
        (row,) = re.findall(rf"^\| {library} \|(.*)\|(.*)\|$", page, flags=re.MULTILINE)
        return [re.findall("`(.*?)`", cell) for cell in row]

    def value(code: str) -> Any:
        return eval(code, names)  # noqa: S307 - our own page

    (update, compute), (bridge,) = cells("torchmetrics")
    exec(bridge, names)  # noqa: S102 - our own page
    value(update)
    scores = value(cells("aac-metrics")[1][0])
    ciders = [value(cells("pycocoevalcap")[1][0])[0], value(compute).item(), scores.system["cider"]]
    bleus = [scores.system["bleu_4"], value(cells("evaluate")[1][0])["bleu_4"]]
    assert ciders == pytest.approx([Cider().compute_score(gts, res)[0]] * 3, abs=1e-9)
    assert bleus == pytest.approx([Bleu(4).compute_score(gts, res, verbose=0)[0][3]] * 2, abs=1e-9)

"""``bench explain``: what metrics matched, and what a judge said, on a terminal and as a page."""

import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from page_markup import markup
from tiny_capture import find_minilm, make_wordnet
from tiny_images import noise_png

from capbench.metrics import aloha as aloha_metric

from .conftest import WRONG_USAGE

CANDIDATE = "A ruddy auto & a <dog> on a route."
REFERENCE = "A red car stands on a road near houses."
ROWS = [
    {
        "caption": CANDIDATE,
        "objects": ["auto", "route", "dog"],
        "attributes": {"auto": ["ruddy"]},
        "relations": [["auto", "on", "route"]],
    },
    {
        "caption": REFERENCE,
        "objects": ["car", "house", "road"],
        "attributes": {"car": ["red"]},
        "relations": [["car", "on", "road"]],
    },
]


@pytest.fixture
def metric(tmp_path: Path):
    """Return a function that names CAPTURE on recorded graphs and a small WordNet."""
    (tmp_path / "wordnet").mkdir()
    wordnet = make_wordnet(tmp_path / "wordnet")

    def name(*rows: dict[str, object], settings: str = "soft=false") -> str:
        file = tmp_path / "graphs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows or ROWS))
        return f"capture[parser=recorded,parser_model={file},wordnet={wordnet},{settings}]"

    return name


def given(metric: str, *more: object) -> list[object]:
    return ["explain", "--metric", metric, "--candidate", CANDIDATE, "--reference", REFERENCE, *more]


def test_matches_are_printed_by_kind_without_colour_codes(bench, metric):
    done = bench(*given(metric())).succeeded("objects: precision 0.6667, recall 0.6667, F1 0.6667")
    assert "\x1b" not in done.out
    # Objects: 2 of 3 either way; attributes and relations: all.
    assert done.out.startswith("CAPTURE (recorded graphs) 0.8611\n")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert {"≈ auto car", "✗ dog", "≈ auto – on – route car – on – road", "≈ ruddy (auto) red (car)"} <= set(lines)


def test_page_is_whole_escaped_and_loads_nothing(bench, metric, tmp_path: Path):
    bench(*given(metric()), "--html", tmp_path / "why.html").succeeded()
    text = (tmp_path / "why.html").read_text(encoding="utf-8")
    opened, closed = (Counter(re.findall(rf"<{closes}(\w+)", text)) for closes in ("", "/"))
    assert {tag for tag in opened if opened[tag] != closed[tag]} <= {"meta", "br", "link"}
    parsed = markup(text)
    assert (parsed.scripts, parsed.faults) == ([], ["style"])
    assert all(link.startswith(("data:,", "#")) for link in parsed.links)
    assert '&lt;<mark class="unmatched" title="unmatched">dog</mark>&gt;' in text
    assert '<html lang="en">' in text
    assert "color-scheme: light dark" in text
    assert re.search('<mark class="synonym"[^>]*>auto</mark>', text)
    assert re.search('<mark class="unmatched"[^>]*>houses</mark>', text)
    assert text.count("<caption>") == 3


def test_soft_matches_show_the_cosine(bench, metric):
    done = bench(*given(metric(settings=f"encoder={find_minilm()},device=cpu"))).succeeded()
    assert re.search(r"\n  ~ dog +house +0\.\d{3} of the candidate's\n", done.out)


def test_number_that_is_asked_for_is_the_one_that_is_explained(bench, metric):
    recall = bench(*given(metric(settings="soft=false,of=object_recall"), "--reference", CANDIDATE))
    assert recall.out.startswith("CAPTURE-Recall (objects, recorded graphs) 0.8333\nThe score is the mean over ref")
    assert "reference 1: 0.6667" in recall.out


OBJECTS = ["explain", "--candidate", "A <red> star and a moon, a heart.", "--reference", "A star and a circle."]


def test_objects_of_aloha_are_shown_beside_those_they_are_matched_with(bench):
    aloha = f"aloha[objects=grammar,root_nouns=none,unmatched=zero,device=cpu,encoder={find_minilm()}]"
    done = bench(*OBJECTS, "--metric", aloha).succeeded()
    assert done.out.startswith("ALOHa (grammar, unmatched 0, model) 0.0000\n")
    assert re.search(r"✗ (moon|heart)\n  ~ (heart|moon) +circle +0\.\d{3}\n  = star +star\n", done.out)
    assert "(setting unmatched: zero)" in done.out
    assert "lacks" not in done.out
    unknown = bench("explain", "--candidate", "A star and a dog.", "--reference", "A star.", "--metric", aloha)
    assert "  · dog\n" in unknown.out
    assert unknown.out.rstrip().endswith("· a word that the parser's list lacks")


def test_objects_that_a_judge_listed_are_explained_and_without_one_its_option_is_named(bench, tmp_path: Path):
    aloha = f"aloha[root_nouns=none,device=cpu,encoder={find_minilm()}]"
    rows = [
        (aloha_metric.CANDIDATE.replace("{caption}", "a dog"), "- dog"),
        (aloha_metric.REFERENCES.replace("{captions}", "- a puppy"), "- dog or puppy"),
    ]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"prompt": a, "response": b}) + "\n" for a, b in rows))
    asked = ["explain", "--candidate", "a dog", "--reference", "a puppy", "--metric", aloha]
    bench(*asked, "--judge", f"responses:{answers}").succeeded("= dog        dog")
    bench(*asked).failed(2, "--judge")
    bench(*OBJECTS, "--metric", "aloha[objects=grammar,detections=true,root_nouns=none]").failed(2, "objects")


def facts_of(tmp_path: Path, oracle: str, caption: str, known: str) -> list[object]:
    """Name DCScore, and answers of a judge on a caption of three facts and an oracle of two."""
    settings: dict[str, Path] = {}
    fields = ("{caption}", "{predicted_atomic_facts} {oracle_atomic_facts}", "{reference_caption} {atomic_facts}")
    for prompt, texts in zip(("facts", "match", "verify"), fields, strict=True):
        (tmp_path / prompt).write_text(f"{prompt} {texts}")
        settings[f"{prompt}_prompt"] = tmp_path / prompt
    mine, theirs = ("<red>.", "A dog.", "Fun."), ("It is red.", "It is big.")
    listed = [
        "[\n" + ",\n".join(json.dumps({key: n, "fact": fact}) for n, fact in enumerate(facts)) + "\n]"
        for key, facts in (("number", mine), ("id", theirs))
    ]
    extracted = [[{"fact": fact, "relevance": int(fact != "Fun.")} for fact in facts] for facts in (mine, theirs)]
    rows = [(f"facts {caption}", extracted[0], 0), (f"facts {known}", extracted[1], 0)]
    for seed, (about, truth) in enumerate(((1, 1), (None, 0))):
        matches = [{"number": n, "matched_oracle_id": (0, about, None)[n]} for n in range(3)]
        verdicts = [{"number": n, "verification": (1, truth, 0)[n]} for n in range(3)]
        rows += [(f"match {' '.join(listed)}", matches, seed), (f"verify {known} {listed[0]}", verdicts, seed)]
    answers = tmp_path / "answers.jsonl"
    entries = [{"prompt": a, "response": json.dumps(b), "seed": c} for a, b, c in rows]
    answers.write_text("".join(json.dumps(row) + "\n" for row in entries))
    said = ",".join(f"{key}={value}" for key, value in settings.items())
    return ["explain", "--metric", f"dcscore[{oracle},answers=2,{said}]", "--judge", f"responses:{answers}"]


def test_facts_of_dcscore_are_shown_with_what_each_answer_says_and_the_numbers_of_each_trial(bench, tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(noise_png(0))
    asked = [*facts_of(tmp_path, "oracle=judge", "A <dog>.", "r"), "--candidate", "A <dog>.", "--reference", "r"]
    done = bench(*asked, "--image", image).succeeded()
    lines = done.out.splitlines()
    # All of precision and recall, and those of relevant facts; in the third trial the dog is beyond the oracle.
    f1 = [2 * p * r / (p + r) for p, r in ((2 / 3, 1), (1 / 3, 1 / 2), (2 / 3, 2 / 3), (1 / 3, 1 / 2))]
    relevant = [2 * p * r / (p + r) for p, r in ((1, 1), (1 / 2, 1 / 2), (1, 2 / 3), (1 / 2, 1 / 2))]
    assert lines[0] == f"DCScore (oracle by the judge) {(sum(f1) + sum(relevant)) / 8:.4f}"
    assert {"  ✓ 1 <red>.  true 1 1, about 1 1", "  ~ 2 A dog.  true 1 0, about 2 –"} <= set(lines)
    assert "  ✗ 3 Fun.    true 0 0, about – –, not relevant" in lines
    assert {"  ✓ 1 It is red.  about it 1", "  ~ 2 It is big.  about it 2"} <= set(lines)
    trials = [line.strip() for line in lines if line.startswith(("    matching", "    mean"))]
    numbers = {name: values for name, *values in (re.split(r"  +", line) for line in trials)}
    assert numbers["matching 1, verifying 1"] == ["0.6667", "1.0000", "0.8000", "1.0000", "1.0000", "1.0000"]
    assert numbers["matching 1, verifying 2"] == ["0.3333", "0.5000", "0.4000", "0.5000", "0.5000", "0.5000"]
    assert numbers["mean"][2] == f"{sum(f1) / 4:.4f}"
    assert len(numbers) == 5
    assert "~ answers differ" in lines
    assert "✗ a fact of the caption that is false in every answer" in lines
    assert "in any trial" not in done.out
    bench(*asked).failed(2, "needs the image")
    bench(*asked, "--image", tmp_path / "none.png").failed(2, "no such file")


def test_sample_of_a_task_is_explained_with_its_image(bench, write_task, tmp_path: Path):
    folder = write_task()
    known = {"image_name": "1.png", "oracle_caption": "t", "oracle_facts": ["It is red.", "It is big."]}
    (tmp_path / "known.jsonl").write_text(json.dumps(known))
    asked = [*facts_of(tmp_path, f"facts={tmp_path / 'known.jsonl'}", "a dog runs", "t"), "--task", "small"]
    asked += ["--include_path", folder, "--sample", "r1"]
    bench(*asked).failed(1, "needs images")
    (folder / "1.jpg").write_bytes(noise_png(0))
    done = bench(*asked).succeeded()
    assert done.out.startswith("DCScore 0.6333\nThe score is the mean of both F1.")
    assert "\n\ncandidate  a dog runs\nreference  a dog runs" in done.out
    bench(*asked[:-1], "r2").failed(1, "DCScore cannot explain this: ")


def test_sample_of_a_task_is_explained(bench, metric, write_task):
    folder = write_task()
    rows = [{"caption": "a dog runs", "objects": ["dog"]}]
    rows += [{"caption": "a dog runs over the grass", "objects": ["dog", "grass"]}]
    task = ["explain", "--metric", metric(*rows), "--task", "small", "--include_path", folder]
    bench(*task, "--sample", "r1").succeeded("objects: precision 1.0000, recall 0.5000")
    bench(*task, "--sample", "r11").failed(2, "has no sample 'r11'. Did you mean 'r1'?")
    bench(*task, "--sample", "r2").failed(1, "candidate: the parser gave no graph")


def test_sample_of_a_task_is_explained_by_the_settings_of_the_task(bench):
    task = ["explain", "--task", "shapes_detailcaps_agreement", "--sample", "3-wrong_relation"]
    bench(*task).succeeded("relations: precision 0.7500", "objects: precision 1.0000")
    # Settings that are named stand in their place.
    halved = bench(*task, "--metric", "capture[parser=grammar,synonyms=false,soft=false,alpha=0,beta=0]")
    assert halved.out.startswith("CAPTURE (grammar) 0.7500\n")
    bench(*task, "--metric", "cider").succeeded("✗ above the black square", "= blue star")
    bench(*task, "--metric", "length").failed(2, "cannot be explained")


@pytest.mark.parametrize(("typed", "said"), WRONG_USAGE["explain"].items())
def test_wrong_usage_is_told(bench, metric, typed: str, said: str):
    options = () if "--metric" in typed else ("--metric", metric())
    bench("explain", *shlex.split(typed), *options).failed(2, said)

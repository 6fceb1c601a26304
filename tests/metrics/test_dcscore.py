"""DCScore: against the released arithmetic, by hand, with recorded answers, and over a server from the command line."""

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from chat_server import chat_server, completion, prompt_of
from tiny_images import noise_png

from capbench.adapters import ImageHandle, VideoHandle
from capbench.cli.main import main
from capbench.errors import MetricError
from capbench.metrics import Context, Items, build_metric
from capbench.metrics.dcscore import (
    PARTS,
    CaptionFact,
    DcScore,
    FactCheck,
    read_entries,
    read_facts,
    read_matches,
    read_verdicts,
    trial,
)
from capbench.metrics.dcscore import listed as listed_facts
from capbench.metrics.golden import read_golden
from capbench.metrics.judging import MOST_CHARACTERS

GOLDEN: dict[str, Any] = read_golden("dcscore")
CASES = yaml.safe_load(Path(__file__).with_name("dcscore.yaml").read_text())
IMAGE = ImageHandle(noise_png(0))


@pytest.fixture
def prompts(tmp_path: Path) -> dict[str, Any]:
    """Prompts that hold nothing but what a question is of."""
    texts = {
        "facts_prompt": "FACTS {caption}",
        "match_prompt": "MATCH {predicted_atomic_facts} {oracle_atomic_facts}",
        "verify_prompt": "VERIFY {reference_caption} {atomic_facts}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


@pytest.fixture
def oracle(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes the oracle's facts: of each image so many."""

    def write(*counts: int) -> str:
        rows = [
            {
                "image_name": f"image_{image}.jpg",
                "oracle_caption": f"caption of {image}",
                "oracle_facts": [f"{image} has {n}." for n in range(count)],
            }
            for image, count in enumerate(counts)
        ]
        (tmp_path / "oracle.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return str(tmp_path / "oracle.jsonl")

    return write


@pytest.fixture
def judge(answers: Callable):
    """Return a function that records answers: rows of a prompt, its answer, and the seed by which it was drawn."""
    return lambda *rows: answers({"prompt": prompt, "response": said, "seed": seed} for prompt, said, seed in rows)


def items(*candidates: str, references: Sequence[tuple[str, ...]] = (), **more: Any) -> Items:
    count = len(candidates)
    names = [f"image_{n}" for n in range(count)]
    fields = {"images": [IMAGE] * count, "image_names": names, **more}
    return Items(names, candidates, references or [()] * count, np.ones(count), **fields)


def listed(facts: Sequence[str], key: str = "") -> str:
    entries = [json.dumps({**({key: n} if key else {}), "fact": fact}) for n, fact in enumerate(facts)]
    return "[\n" + ",\n".join(entries) + "\n]"


def asked(image: int, count: int, facts: Sequence[str], key: str = "number") -> tuple[str, str]:
    """Return what is asked of a caption's facts, as the fixtures' prompts have it."""
    listing = listed(facts, key)
    known = listed([f"{image} has {n}." for n in range(count)], "id")
    return f"MATCH {listing} {known}", f"VERIFY caption of {image} {listing}"


def test_recorded_answers_score_as_the_released_code_scores_them(prompts, oracle, judge):
    cases = GOLDEN["cases"]
    rows: list[tuple[str, str, int | None]] = []
    for number, case in enumerate(cases):
        facts = [fact.text for fact in read_facts(case["facts"])]
        match, verify = asked(number, case["oracle"], facts, key="")
        rows.append((f"FACTS {number}", case["facts"], 0))
        rows += [(match, answer, seed) for seed, answer in enumerate(case["matches"])]
        rows += [(verify, answer, seed) for seed, answer in enumerate(case["verifications"])]
    metric = build_metric("dcscore", {**prompts, "facts": oracle(*(case["oracle"] for case in cases)), "join": "text"})
    scores = metric.score(items(*map(str, range(len(cases)))), Context(judge=judge(*rows)))
    assert scores.failures == {}
    parts = np.stack([scores.parts[name] for name in PARTS], axis=1)
    assert parts == pytest.approx(np.array([case["parts"] for case in cases]), abs=1e-12)
    assert f"{scores.values.mean() * 100:.2f}" == GOLDEN["printed"]


def test_trial_by_hand():
    facts = [CaptionFact("a", True), CaptionFact("b", True), CaptionFact("c", False), CaptionFact("d", False)]
    oracle = [CaptionFact("x", True), CaptionFact(" ", True), CaptionFact("z", False)]
    # a and c share x, b is about none, d about y and false; of the oracle two are relevant.
    parts = trial(facts, oracle, [0, None, 0, 1], [True, True, True, False])
    recall, recall_relevant = (1 / 2 + 1 / 2 + 1) / (3 + 1), (1 / 2 + 1) / (2 + 1)
    f1 = [2 * p * r / (p + r) for p, r in ((3 / 4, recall), (1, recall_relevant))]
    assert parts == pytest.approx([3 / 4, recall, f1[0], 1, recall_relevant, f1[1]])
    assert trial(facts[:1], oracle, [None], [False]).tolist() == [0.0] * 6
    # b is about z: 1 of 3; of the relevant ones z is none, and b is one more than both.
    assert trial(facts[1:2], oracle, [2], [True])[[1, 4]].tolist() == [1 / 3, 1 / (2 + 1)]
    # All of x and z: no recall is above 1.
    assert trial(facts[:2], [oracle[0], oracle[2]], [0, 1], [True, True])[[1, 4]].tolist() == [1, 1]


def test_facts_are_joined_by_number_whatever_answers_call_them(prompts, oracle, judge):
    match, verify = asked(0, 2, ["It is red.", "It is big."])
    answers = judge(
        ("FACTS c", '[{"fact": "It is red.", "relevance": 1}, {"fact": "It is big.", "relevance": 1}]', None),
        (match, '[{"number": 1, "fact": "!", "matched_oracle_id": "1"}, {"number": "0", "matched_oracle_id": null}]',
         None),
        (verify, '[{"number": 0, "verification": 1}, {"number": 1, "fact": "", "verification": 0}]', None),
    )  # fmt: skip
    metric = DcScore(oracle(2), **prompts)
    (account,) = metric.accounts(items("c"), Context(judge=answers))
    assert isinstance(account, FactCheck)
    assert account.matchings == ((None, 1),) * 3
    assert account.verifications == ((True, False),) * 3
    assert [fact.text for fact in account.oracle] == ["0 has 0.", "0 has 1."]
    # Precision 1 of 2, recall 1 of 3 (one fact is beyond the oracle's two).
    assert account.value == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    scores = metric.score(items("c"), Context(judge=answers))
    assert scores.values.tolist() == [account.value]
    counts = {name: scores.parts[name].tolist() for name in ("facts", "relevant", "oracle")}
    assert counts == {"facts": [2], "relevant": [2], "oracle": [2]}
    by_text = DcScore(oracle(2), join="text", **prompts).score(items("c"), Context(judge=answers))
    # Its questions have no numbers, and these nobody answered.
    assert by_text.failures == {0: "matching: judge: is not among the recorded responses"}


GOOD = '[{"fact": "It is red.", "relevance": 1}]'
MATCHED = '[{"number": 0, "matched_oracle_id": 0}]'
VERIFIED = '[{"number": 0, "verification": 1}]'


def test_answer_that_cannot_be_used_is_asked_for_again_by_another_seed(prompts, oracle, judge):
    match, verify = asked(0, 1, ["It is red."])
    answers = judge(
        ("FACTS c", "I cannot say.", 7),
        ("FACTS c", "[]", 9),
        ("FACTS c", GOOD, 11),
        *((match, MATCHED, seed) for seed in (7, 10)),
        (match, "[{}]", 8),
        *((verify, VERIFIED, seed) for seed in (7, 8)),
    )
    metric = DcScore(oracle(1), answers=2, tries=3, seed=7, **prompts)
    assert metric.score(items("c"), Context(judge=answers)).values == pytest.approx([1.0])
    fewer = DcScore(oracle(1), answers=2, tries=2, seed=7, **prompts)
    scores = fewer.score(items("c"), Context(judge=answers))
    assert scores.failures == {0: "facts: the judge's answer has no fact (2 tries): '[]'"}
    assert np.isnan(scores.values).all()


@pytest.mark.parametrize(
    ("facts", "matched", "verified", "reason"),
    [
        ("no list", "", "", "facts: the judge's answer is not a JSON list"),
        (f"no\nlist {52 * 'x'}", "", "", "facts: the judge's answer is not a JSON list"),
        (f"no\nlist {53 * 'x'}", "", "", "facts: the judge's answer is not a JSON list"),
        ('[{"fact": "It is red.", "relevance": 0}]', "", "", "facts: the judge's answer has no relevant fact"),
        ('[{"fact": "It is red."}]', "", "", "facts: an entry of the judge's answer has a relevance other than 0 or 1"),
        (GOOD, '[{"number": 0}]', VERIFIED, "matching: an entry of the judge's answer has no matched_oracle_id"),
        (GOOD, MATCHED, '[{"number": 1, "verification": 1}]',
         "verifying: the judge's answer does not have one entry for each fact, matched by number"),
    ],
)  # fmt: skip
def test_caption_whose_answers_cannot_be_used_is_named_with_its_reason_or_counts_0(
    prompts, oracle, judge, facts: str, matched: str, verified: str, reason: str
):
    match, verify = asked(0, 1, ["It is red."])
    answers = judge(("FACTS c", facts, None), (match, matched, None), (verify, verified, None))
    scores = DcScore(oracle(1), **prompts).score(items("c", " "), Context(judge=answers))
    # The answer that could not be used is the last, on one line, and no more of it than 60 characters.
    bad = " ".join((verified if "verifying" in reason else matched if "matching" in reason else facts).split())
    reason += f" (5 tries): '{bad[:60]}{'…' if len(bad) > 60 else ''}'"
    assert scores.failures == {0: reason}
    # A caption that says nothing is 0 of itself.
    assert scores.values == pytest.approx([np.nan, 0], nan_ok=True)
    zero = DcScore(oracle(1), invalid="zero", **prompts)
    scores = zero.score(items("c", " "), Context(judge=answers))
    assert scores.failures == {}
    assert scores.values.tolist() == [0, 0]
    assert scores.remarks == {0: f"{reason}; counts 0"}
    assert zero.label == "DCScore (invalid 0)"


def test_oracle_of_the_judge_is_what_it_takes_out_of_the_references(prompts, judge):
    own = '[{"fact": "A wall.", "relevance": 1}, {"fact": "Grim.", "relevance": 0}, {"fact": "Old.", "relevance": 1}]'
    listing = listed(["It is red."], "number")
    known = listed(["A wall.", "Grim.", "Old."], "id")
    answers = judge(
        ("FACTS c", GOOD, None),
        ("FACTS one\n\ntwo", own, None),
        ("FACTS bad", "[]", None),
        (f"MATCH {listing} {known}", MATCHED, None),
        (f"VERIFY one\n\ntwo {listing}", VERIFIED, None),
    )
    metric = DcScore(oracle="judge", **prompts)
    assert "references" in metric.needs
    assert metric.label == "DCScore (oracle by the judge)"
    scores = metric.score(
        items("c", "c", "c", references=[("one", " ", "two"), ("bad",), ("",)], image_names=()), Context(judge=answers)
    )
    # Recall is 1 of 3, and of the relevant ones 1 of 2.
    assert scores.values[0] == pytest.approx((2 / 3 / (1 + 1 / 3) + 1 / (1 + 1 / 2)) / 2)
    assert scores.failures == {
        1: "references: facts: the judge's answer has no fact (5 tries): '[]'",
        2: "references: are empty",
    }


def test_item_without_an_oracle_or_an_image_is_named(prompts, oracle, judge):
    metric = DcScore(oracle(1), **prompts)
    context = Context(judge=judge(("x", "y", None)))
    film = VideoHandle(Path("a.mp4"))
    scores = metric.score(items("c", "c", images=[film, IMAGE]), context)
    assert scores.failures == {
        0: "DCScore takes images, and this is a video: a.mp4",
        1: "oracle.jsonl has no row of its image: 'image_1', but of 'image_0'",
    }
    with pytest.raises(MetricError, match="name no images"):
        metric.score(items("c", image_names=()), context)
    with pytest.raises(MetricError, match="needs images"):
        metric.score(items("c", images=()), context)


@pytest.mark.parametrize(("content", "said"), CASES["faulty facts"])
def test_faulty_file_of_facts_is_told_by_its_row(tmp_path: Path, content: str, said: str):
    file = tmp_path / "oracle.jsonl"
    file.write_text(content)
    with pytest.raises(MetricError, match=r"oracle\.jsonl") as raised:
        DcScore(str(file)).check()
    assert said in raised.value.message
    assert raised.value.hint


def test_what_is_missing_is_told_before_anything_is_asked(tmp_path: Path):
    with pytest.raises(MetricError, match=r"needs a file of oracle facts.*\n.*oracle=judge"):
        DcScore().check()
    with pytest.raises(MetricError, match="no such file"):
        DcScore(str(tmp_path / "gone.jsonl")).check()
    (tmp_path / "p.txt").write_text("{caption}")
    with pytest.raises(MetricError, match=r"does not contain \{predicted_atomic_facts\}"):
        DcScore(oracle="judge", match_prompt=str(tmp_path / "p.txt")).check()
    DcScore(oracle="judge").check()


def test_prompts_of_the_released_script_become_files_as_the_docs_say(tmp_path, oracle, monkeypatch):
    fields = {
        "extract_prompt": ["caption"],
        "match_prompt": ["predicted_atomic_facts", "oracle_atomic_facts"],
        "verify_prompt": ["reference_caption", "atomic_facts"],
    }
    script = ["import os", "def f(x):", "    return x"]
    for name, its in fields.items():
        texts = " ".join(f"{{{field}}}" for field in its)
        script += [f"{name} = \\", f'''"""[{{{{"fact": [FACT]}}}}, ...] {texts}"""''']
    (tmp_path / "evaluation_decapbench.py").write_text("\n".join(script))
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text()
    exec(page.split("```python\n")[1].split("```")[0], {})  # noqa: S102 - our own page
    DcScore(
        oracle(1),
        join="text",
        facts_prompt="extract_prompt.txt",
        match_prompt="match_prompt.txt",
        verify_prompt="verify_prompt.txt",
    ).check()
    assert Path("extract_prompt.txt").read_text() == '[{"fact": [FACT]}, ...] {caption}'


def test_fingerprint_holds_what_moves_a_value_and_no_path(prompts, oracle):
    def told(**settings: Any) -> str:
        return json.dumps(DcScore(**{"facts": oracle(1), **settings}).fingerprint(), sort_keys=True)

    variants: list[dict[str, Any]] = [
        {}, {"join": "text"}, {"invalid": "zero"}, {"answers": 1}, {"tries": 1}, {"seed": 1}, {"temperature": 0.5},
        {"verify_temperature": 0.0}, {"max_tokens": 9}, {"facts": None, "oracle": "judge"},
        *({name: path} for name, path in prompts.items()),
    ]  # fmt: skip
    fingerprints = [told(**variant) for variant in variants]
    assert len(set(fingerprints)) == len(variants)
    assert not any(str(Path(path).parent) in fingerprint for path in prompts.values() for fingerprint in fingerprints)
    before = told()
    assert DcScore(oracle(2)).fingerprint() != json.loads(before)


def test_list_is_read_as_python_or_as_json_wherever_it_stands():
    entry = [{"fact": 'a "b"', "relevance": 1}]
    for answer in (
        "[{'fact': 'a \"b\"', 'relevance': 1,},]",
        'So:\n```json\n[{"fact": "a \\"b\\"", "relevance": 1}]\n```\nDone [1] ```x```.',
        '```\n[{"fact": "a \\"b\\"", "relevance": 1}]\n```',
        '```json[{"fact": "a \\"b\\"", "relevance": 1}]',
        'As `[{"fact": "a \\"b\\"", "relevance": 1}]`, or none',
    ):
        assert read_entries(answer) == entry
    assert read_entries('[{"fact": "a", "relevance": true}]')[0]["relevance"] is True
    assert read_entries("[{}]" + " " * (MOST_CHARACTERS - 4)) == [{}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_entries('[{"fact": "a\\/b"}]') == [{"fact": "a\\/b"}]
    for answer in ("", "{}", "[1]", "[", "]", "[" * 50_000, "-" * 90_000 + "1", "[{}]" + " " * MOST_CHARACTERS):
        with pytest.raises(ValueError, match="the judge's answer is"):
            read_entries(answer)


@pytest.mark.parametrize("answer", CASES["unusable matches"])
def test_matching_that_names_no_fact_of_either_side_cannot_be_used(answer: str):
    with pytest.raises(ValueError, match=r"answer"):
        read_matches(answer, [CaptionFact("a", True)], 2, "text")


@pytest.mark.parametrize("entry", ['"fact": " "', '"fact": 1', '"facts": "a"', '"fact": "a", "relevance": 2',
                                   '"fact": "a", "relevance": "1"', '"fact": "a", "relevance": 1.0'])  # fmt: skip
def test_fact_without_a_text_or_with_another_relevance_cannot_be_used(entry: str):
    more = "" if "relevance" in entry else ', "relevance": 1'
    with pytest.raises(ValueError, match="an entry of the judge's answer has"):
        read_facts(f'[{{"fact": "b", "relevance": 1}}, {{{entry}{more}}}]')


def test_things_that_facts_name_are_shown_where_they_are_texts():
    entries = [{"fact": "A dog.", "identifier": "dog_0", "relevance": 1},
               {"fact": "It runs.", "identifier": 0, "relevance": 0}]  # fmt: skip
    facts = read_facts(json.dumps(entries))
    assert facts == (CaptionFact("A dog.", True, "dog_0"), CaptionFact("It runs.", False))
    shown = [{"fact": "A dog.", "identifier": "dog_0"}, {"fact": "It runs."}]
    assert json.loads(listed_facts(facts, "text")) == shown
    assert json.loads(listed_facts(facts, "number")) == [{"number": n} | fact for n, fact in enumerate(shown)]


def test_facts_of_one_text_are_judged_in_their_order():
    facts = [CaptionFact("a", True), CaptionFact("b", True), CaptionFact("a", True)]
    said = [{"fact": "a", "verification": 1}, {"fact": "a", "verification": 0}, {"fact": "b", "verification": 0}]
    assert read_verdicts(json.dumps(said), facts, "text") == (True, False, False)


def test_run_asks_a_server_once_and_finds_its_answers_again(tmp_path, monkeypatch, capsys):
    def behave(body: dict[str, Any], before: int):
        prompt = prompt_of(body)
        if prompt.startswith("Break"):
            return completion(GOOD)
        return completion(MATCHED if prompt.startswith("Two lists") else VERIFIED)

    data = tmp_path / "data"
    (data / "iiw" / "images_aar").mkdir(parents=True)
    names = ["aar_test_04600", "aar_test_04601"]
    for number, name in enumerate(names):
        (data / "iiw" / "images_aar" / f"{name}.jpg").write_bytes(noise_png(number))
    facts = tmp_path / "facts.jsonl"
    rows = [{"image_name": f"{name}.jpg", "oracle_caption": "t", "oracle_facts": ["f", name]} for name in names]
    facts.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setenv("CAPBENCH_DATA", str(data))
    with chat_server(behave) as server:
        command = ["run", "--task", "iiw_400", "--model", "iiw-p5b", "--limit", "2", "--metrics",
                   f"dcscore[facts={facts}]", "--judge", "openai_judge", "--judge_args",
                   f"model=tiny,base_url={server.url}", "--output_path", str(tmp_path / "runs")]  # fmt: skip
        assert main(command) == 0
        # Of two images: facts once, matching and verifying three times each, by seeds of their own.
        assert len(server.bodies) == 14
        assert sorted((body["temperature"], body["seed"]) for body in server.bodies) == sorted(
            [(1.0, 0)] * 2 + [(temperature, seed) for temperature in (1.0, 0.3) for seed in (0, 1, 2)] * 2
        )
        seen = [body for body in server.bodies if isinstance(body["messages"][-1]["content"], list)]
        assert {body["temperature"] for body in seen} == {0.3}
        assert {body["max_tokens"] for body in server.bodies} == {2000}
        assert main(command) == 0
        assert len(server.bodies) == 14
        assert main(["store", "prune", "--containing", "tiny"]) == 0
        assert main(command) == 0
        assert len(server.bodies) == 28
    # One true fact of two: precision 1, recall 1/2, F1 2/3.
    assert "66.67" in capsys.readouterr().out

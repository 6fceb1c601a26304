"""Metrics as rewards: the values of the metrics, in the forms in which trainers call for them."""

import atexit
import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_images import noise_image

import capbench
from capbench.benchmarks.interchange.as_reward import written_corpus
from capbench.benchmarks.store.store import Store
from capbench.errors import DataError, UsageError

CORPUS = [
    {"image": "a.jpg", "references": ["a dog runs over grass", "the dog runs"]},
    {"image": "a.jpg", "references": ["a brown dog"]},
    {"image": "b.jpg", "references": ["two cats sleep on a bed"]},
    {"image": "c.jpg", "references": ["a red bus in the street", "a bus"]},
]
COMPLETIONS = ["a dog runs over grass", "two cats run", "", "a dog runs over grass"]
REFERENCES = [["a dog is running on grass"], ["two cats sleep"], ["a bus"], ["a dog is running on grass"]]


def chat(content: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": content}]


def test_reward_is_the_weighted_sum_of_the_metrics_own_values(tmp_path: Path):
    counted = tmp_path / "counted.jsonl"
    rows = [{"image": row["image"], "caption": text} for row in CORPUS for text in row["references"]]
    counted.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reward = capbench.reward({"cider": 2.0, "length": -0.1}, corpus=CORPUS)
    cider = f"cider[document_frequencies={counted}]"
    table = capbench.score(predictions=COMPLETIONS, references=REFERENCES, metrics=[cider, "length"])
    expected = 2 * table.values[cider] - 0.1 * table.values["length"]
    assert expected[0] > 0
    assert reward(completions=COMPLETIONS, references=REFERENCES) == pytest.approx(expected.tolist(), abs=1e-12)
    from_file = capbench.reward({"cider": 2.0, "length": -0.1}, corpus=counted)
    assert from_file(completions=COMPLETIONS, references=REFERENCES) == pytest.approx(expected.tolist(), abs=1e-12)
    # Each row a document: the same n-grams are in other numbers of them.
    for corpus in (CORPUS, {number: row["references"] for number, row in enumerate(CORPUS)}):
        apart = capbench.reward("cider", corpus=corpus, group="none")(completions=COMPLETIONS, references=REFERENCES)
        assert apart[0] != pytest.approx(table.values[cider][0])


def test_completions_are_texts_or_chats_and_other_columns_are_not_looked_at():
    reward = capbench.reward({"meteor": 1.0, "length": 1.0})
    logged: dict[str, float] = {}
    texts = reward(prompts=["?"] * 4, completions=COMPLETIONS, references=REFERENCES, trainer_state=None, other=[1])
    content = [{"type": "text", "text": "two "}, {"type": "text", "text": "cats run"}]
    chats = reward(
        completions=[chat(COMPLETIONS[0]), chat(content), chat(""), chat(COMPLETIONS[3])],
        references=REFERENCES,
        log_metric=logged.__setitem__,
    )
    assert chats == texts
    assert reward.__name__ == "meteor+length"
    assert logged["length"] == np.mean([5, 3, 0, 5])
    assert sum(logged.values()) == pytest.approx(np.mean(texts))


def test_calls_of_verl_give_the_same():
    reward = capbench.reward({"meteor": 1.0, "length": 1.0})
    expected = reward(completions=COMPLETIONS, references=REFERENCES)
    truths = [np.array(references, object) for references in REFERENCES]
    named = {"solution_strs": COMPLETIONS, "ground_truths": truths, "extra_infos": np.array([None] * 4)}
    assert reward.compute_score(data_sources=["coco"] * 4, **named) == expected
    assert reward.compute_score("coco", COMPLETIONS[1], "two cats sleep") == expected[1]


def test_images_are_objects_paths_or_lists_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    image = noise_image(7)
    image.save("noise.png")
    reward = capbench.reward("clip_s", model="shapes-clip", on_error=None, store=tmp_path / "store.sqlite")
    captions = ["a red circle", "a blue square"]
    values = reward(completions=captions, image=["noise.png"] * 2)
    assert None not in values
    with Store(tmp_path / "store.sqlite") as store:
        assert {kept.fingerprint["of"] for kept in store.stats()} >= {"image", "text"}
    assert reward(completions=captions, images=[[image]] * 2) == values
    with pytest.warns(UserWarning, match="completion 1: image: "):
        assert reward(completions=captions, images=[[image], [image] * 2]) == [values[0], None]
    extras = [{"image": image}] * 2
    assert reward.compute_score(solution_strs=captions, ground_truths=[""] * 2, extra_infos=extras) == values
    with pytest.warns(UserWarning, match=r"2 completions .*: completion 0: image: .*; completion 1: clip_s: "):
        assert reward(completions=[*captions, captions[1]], image=[None, "gone.png", image]) == [None, None, values[1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, r"no column 'references'.*\n.*other"),
        ({"references": REFERENCES[:3]}, r"'references' has 3 values for 4 completions"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        capbench.reward("meteor")(completions=COMPLETIONS, other=[1] * 4, **columns)


def test_completion_without_references_is_an_error_or_the_given_value():
    columns: dict[str, Any] = {"completions": COMPLETIONS[:2], "references": [[], REFERENCES[1]]}
    with pytest.raises(DataError, match=r"1 completion without a value: completion 0: reference: is an empty list"):
        capbench.reward("meteor")(**columns)
    second = capbench.reward("meteor")(completions=COMPLETIONS[1:2], references=REFERENCES[1:2])
    for value in (-1.0, None):
        with pytest.warns(UserWarning, match="completion 0: [^;]*$"):
            assert capbench.reward("meteor", on_error=value)(**columns, log_metric=pytest.fail) == [value, *second]
    with pytest.warns(UserWarning, match=r"completion 0: .* is null; completion 2: .* is not text but int"):
        texts = [chat(None), "", 3]
        assert capbench.reward("meteor", on_error=None)(completions=texts, references=["a"] * 3) == [None, 0.0, None]
    for count, more in ((3, "completion 2: [^;]*$"), (4, "completion 2: [^;]*; and 1 more$")):
        with pytest.warns(UserWarning, match=more):
            capbench.reward("meteor", on_error=None)(completions=["a"] * count, references=[[]] * count)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: capbench.reward("cider"), "'cider' depend on the other captions of a step"),
        (lambda: capbench.reward("clip_s"), "needs a model that encodes images"),
        (lambda: capbench.reward("meteor", corpus=CORPUS), "corpus= is for the metric 'cider'"),
        (lambda: capbench.reward("cider", corpus=[{"references": []}]), "corpus: row 0"),
        (lambda: capbench.reward("cider", corpus=CORPUS[:2]), "of 1 document, where every n-gram weighs 0"),
        (lambda: capbench.reward(["meteor", "length[name=meteor]"]), r"are called 'meteor'\n.*name=NAME"),
        (lambda: capbench.reward(["meteor", "length"], on_error="skip"), "on_error='skip'"),
    ],
)
def test_rewards_that_cannot_be_are_refused_when_they_are_made(make, message: str):
    with pytest.raises((UsageError, DataError), match=message):
        make()


def test_written_corpus_is_deleted_with_the_process(monkeypatch: pytest.MonkeyPatch):
    at_the_end = list[tuple[Any, ...]]()
    monkeypatch.setattr(atexit, "register", lambda *call: at_the_end.append(call))
    file = Path(written_corpus(CORPUS, "image"))
    assert len(file.read_text(encoding="utf-8").splitlines()) == 6
    for call, *arguments in at_the_end:
        call(*arguments)
    assert not file.exists()


def _sent(reward: Any, completions: list[str], references: list[list[str]]) -> list[float]:
    return reward(completions=completions, references=references)


@pytest.mark.costly
def test_another_process_computes_the_same():
    reward = capbench.reward({"cider": 1.0, "meteor": 1.0}, corpus=CORPUS)
    expected = reward(completions=COMPLETIONS, references=REFERENCES)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        calls = [(reward, COMPLETIONS[n : n + 2], REFERENCES[n : n + 2]) for n in (0, 2)]
        assert [value for values in pool.starmap(_sent, calls) for value in values] == expected


@pytest.mark.costly
def test_trainer_of_trl_calls_it(tmp_path: Path):
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    words = ["<pad>", "</s>", "describe", "a", "dog", "cat", "runs", "sleeps"]
    tokens = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "<pad>"))
    tokens.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="</s>")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), pad_token_id=0, eos_token_id=1, **sizes))
    settings = GRPOConfig(
        str(tmp_path), per_device_train_batch_size=4, num_generations=4, max_completion_length=6, max_steps=2,
        logging_steps=1, report_to=[], use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model,
        reward_funcs=capbench.reward({"rouge_l": 1.0, "length": 0.1}),
        args=settings,
        train_dataset=Dataset.from_list([{"prompt": "describe", "references": ["a dog runs"]}] * 4),
        processing_class=tokenizer,
    )
    trainer.train()
    steps = [step for step in trainer.state.log_history if "reward" in step]
    assert len(steps) == 2
    for step in steps:
        assert step["reward"] == pytest.approx(step["rouge_l"] + 0.1 * step["length"], abs=1e-6)
        assert step["rewards/rouge_l+length/mean"] == step["reward"] > 0

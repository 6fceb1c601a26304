"""Polos on seeded towers: equal to a plain calculation of the released forward, whatever stands beside a caption."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feature_rows import stacked
from tiny_images import smooth_pictures
from tiny_llm import make_tiny_roberta

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.cli.main import main
from capbench.errors import MetricError
from capbench.metrics import Context, Items
from capbench.metrics.golden import golden_items
from capbench.metrics.polos.metric import Polos
from capbench.metrics.polos.weights import convert

WIDTH, LAYERS = 16, 4
CAPTIONS = ["a dog runs", "the dog and dogs run and run", "dog"]
REFERENCES = [
    ("the dog runs", "dogs", "a dog and a dog and the dog"),
    ("a dog", "dogs and dogs and dogs"),
    ("the dog and dogs", "a dog runs"),
]


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    import torch

    folder = tmp_path_factory.mktemp("roberta")
    model = make_tiny_roberta(folder, vocabulary=280, layers=LAYERS - 1, width=WIDTH, positions=34)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def clip(tiny_clip) -> OpenClipEncoder:
    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


@pytest.fixture(scope="module")
def state(clip: OpenClipEncoder) -> dict[str, Any]:
    """A mixture and a head as the release names them, beside tensors that are not kept."""
    import torch

    torch.manual_seed(1)
    width = 4 * WIDTH + 6 * clip.dimension
    shapes = {"1": (24, width), "2": (12, 24), "3": (1, 12)}
    scalars = {f"scalar_mix.scalar_parameters.{n}": torch.randn(1) for n in range(LAYERS)}
    linear = {f"ff.0.ff.linear_{n}.weight": torch.randn(shape) / shape[1] ** 0.5 for n, shape in shapes.items()}
    biases = {f"ff.0.ff.linear_{n}.bias": torch.randn(shape[0]) for n, shape in shapes.items()}
    beside = {"encoder.model.embeddings.weight": torch.zeros(2), "clip.logit_scale": torch.zeros(1)}
    return {**scalars, "scalar_mix.gamma": torch.tensor([1.3]), **linear, **biases, **beside}


@pytest.fixture(scope="module")
def weights(state: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    import torch

    folder = tmp_path_factory.mktemp("weights")
    torch.save({"state_dict": state, "epoch": 3}, folder / "reprod.ckpt")
    return str(convert(folder / "reprod.ckpt", folder / "polos.safetensors"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[ImageHandle]:
    return smooth_pictures(tmp_path_factory.mktemp("pictures"), len(CAPTIONS))


def items(pictures: list[ImageHandle], references: Any = REFERENCES, captions: Any = CAPTIONS) -> Items:
    return golden_items(captions, references, images=pictures[: len(captions)])


def released(
    roberta: str,
    clip: OpenClipEncoder,
    state: dict[str, Any],
    pictures: list[ImageHandle],
    captions: list[str],
    references: list[tuple[str, ...]],
) -> list[float]:
    """Score a batch as ``PolosEstimator.forward`` does: padded texts, one mixture for all candidates and one for each
    place of a reference, as many places as all captions have.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(roberta), AutoModel.from_pretrained(roberta).eval()

    def sentences(texts: list[str]) -> torch.Tensor:
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.inference_mode():
            layers = model(**inputs, output_hidden_states=True).hidden_states
        mask = inputs["attention_mask"].float()[..., None]
        count = mask.sum() * layers[0].shape[-1]
        scalars = torch.cat([state[f"scalar_mix.scalar_parameters.{n}"] for n in range(LAYERS)])
        total = torch.zeros_like(layers[0])
        for share, layer in zip(torch.softmax(scalars, 0), layers, strict=True):
            mean = (layer * mask).sum() / count
            variance = (((layer * mask - mean) * mask) ** 2).sum() / count
            total += share * (layer - mean) / torch.sqrt(variance + 1e-12)
        return (state["scalar_mix.gamma"] * total)[:, 0]

    def seen(texts: list[str]) -> torch.Tensor:
        return torch.tensor(stacked(clip.texts([f"A photo depicts {text}" for text in texts])))

    v = torch.tensor(stacked(clip.images(pictures)))
    c, t = sentences(captions), seen(captions)
    scores = []
    for place in zip(*references, strict=False):
        r, s = sentences(list(place)), seen(list(place))
        x = torch.cat([r, c, (c - r).abs(), c * r, v, t, (v - t).abs(), v * t, (s - t).abs(), s * t], dim=1)
        for number in "12":
            x = torch.tanh(x @ state[f"ff.0.ff.linear_{number}.weight"].T + state[f"ff.0.ff.linear_{number}.bias"])
        x = x @ state["ff.0.ff.linear_3.weight"].T + state["ff.0.ff.linear_3.bias"]
        scores.append(torch.sigmoid(x)[:, 0])
    return torch.stack(scores).max(dim=0).values.tolist()


@pytest.fixture(scope="module")
def alone(weights: str, roberta: str) -> Polos:
    return Polos(weights=weights, text_model=roberta, device="cpu")


def test_caption_alone_scores_as_in_a_released_batch_of_one(alone, roberta, clip, state, pictures):
    values = alone.score(items(pictures), Context(encoder=clip)).values
    expected = [
        released(roberta, clip, state, [picture], [caption], [references])[0]
        for picture, caption, references in zip(pictures, CAPTIONS, REFERENCES, strict=True)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert np.ptp(values) > 0.01


def test_best_reference_counts_and_each_is_scored_by_itself(alone, roberta, clip, state, pictures):
    each = []
    for reference in REFERENCES[0]:
        item = items(pictures[:1], [(reference,)], CAPTIONS[:1])
        each.append(alone.score(item, Context(encoder=clip)).values[0])
        expected = released(roberta, clip, state, pictures[:1], CAPTIONS[:1], [(reference,)])
        assert each[-1] == pytest.approx(expected[0], abs=1e-5)
    whole = alone.score(items(pictures), Context(encoder=clip)).values[0]
    assert whole == max(each)
    assert min(each) < max(each)


def test_batch_scores_as_released_and_its_captions_move_each_other(alone, weights, roberta, clip, state, pictures):
    batch = Polos(weights=weights, text_model=roberta, device="cpu", batch=3)
    scores = batch.score(items(pictures), Context(encoder=clip))
    expected = released(roberta, clip, state, pictures, CAPTIONS, REFERENCES)
    np.testing.assert_allclose(scores.values, expected, atol=1e-5)
    # As released, the third reference of the first caption is lost, as the others have two.
    assert scores.remarks == {0: "1 of its references are not looked at, as in a released batch"}
    singles = alone.score(items(pictures), Context(encoder=clip)).values
    assert np.abs(scores.values - singles).max() > 1e-4
    assert batch.corpus_dependent
    assert not alone.corpus_dependent


def test_batches_follow_the_order_of_the_data(weights, roberta, clip, state, pictures):
    two = Polos(weights=weights, text_model=roberta, device="cpu", batch=2)
    values = two.score(items(pictures), Context(encoder=clip)).values
    first = released(roberta, clip, state, pictures[:2], CAPTIONS[:2], REFERENCES[:2])
    last = released(roberta, clip, state, pictures[2:], CAPTIONS[2:], REFERENCES[2:])
    np.testing.assert_allclose(values, [*first, *last], atol=1e-5)


def test_caption_without_reference_or_with_too_long_a_text_has_no_score_and_a_reason(
    alone: Polos, weights: str, roberta: str, clip: OpenClipEncoder, pictures: list[ImageHandle]
):
    references = [(), ("a dog",), ("dog " * 60,)]
    batch = Polos(weights=weights, text_model=roberta, device="cpu", batch=3)
    whole = items(pictures[1:2], [("a dog",)], CAPTIONS[1:2])
    for metric in (alone, batch):
        scores = metric.score(items(pictures, references), Context(encoder=clip))
        assert scores.failures[0] == "item has no reference"
        assert "and the text model takes 32" in scores.failures[2]
        assert np.isnan(scores.values[[0, 2]]).all()
        # Those that fail are in no batch.
        assert scores.values[1] == metric.score(whole, Context(encoder=clip)).values[0]


def test_image_that_cannot_be_read_costs_no_other(alone, clip, pictures):
    scores = alone.score(items([ImageHandle(b"no image"), *pictures[1:]]), Context(encoder=clip))
    assert list(scores.failures) == [0]
    assert "not an image" in scores.failures[0]
    assert np.isnan(scores.values[0])
    whole = alone.score(items(pictures), Context(encoder=clip))
    # A batch of another size may round its last bit otherwise.
    assert scores.values[1:] == pytest.approx(whole.values[1:], rel=1e-6)
    assert (alone.range, whole.values.min() > 0, whole.values.max() < 1) == ((0.0, 1.0), True, True)


def test_vectors_of_texts_are_kept(alone, clip, pictures, monkeypatch, tmp_path):
    from capbench.benchmarks.store.store import Store

    with Store(tmp_path / "store.sqlite") as store:
        first = alone.score(items(pictures), Context(cache=store, encoder=clip)).values
        monkeypatch.setattr(type(alone._text_model), "states", None)
        again = alone.score(items(pictures), Context(cache=store, encoder=clip)).values
    assert np.array_equal(first, again)


def test_weights_that_do_not_fit_the_models_are_named(weights, roberta, clip, pictures, tmp_path):
    from safetensors.torch import load_file, save_file

    kept = load_file(weights)
    faulty = {
        r"head takes \d+ features; text model and CLIP give \d+": {
            **kept, "ff.0.ff.linear_1.weight": kept["ff.0.ff.linear_1.weight"][:, 1:].contiguous()
        },
        # A bias of one number would be added to every one.
        r"linear_1 has a weight \(24, \d+\) and a bias \(1,\)": {
            **kept, "ff.0.ff.linear_1.bias": kept["scalar_mix.gamma"].clone()
        },
        r"scalar_mix\.gamma is missing": {name: tensor for name, tensor in kept.items() if "gamma" not in name},
        "has 3 layers; the weights mix 2 and the embeddings": {
            name: tensor for name, tensor in kept.items() if name != "scalar_mix.scalar_parameters.3"
        },
    }  # fmt: skip
    for number, (said, tensors) in enumerate(faulty.items()):
        save_file(tensors, tmp_path / f"{number}.safetensors")
        metric = Polos(weights=str(tmp_path / f"{number}.safetensors"), text_model=roberta, device="cpu")
        with pytest.raises(MetricError, match=said):
            metric.score(items(pictures), Context(encoder=clip))


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("scalar_mix.gamma", "scalar_mix.gamma is missing"),
        ("scalar_mix.scalar_parameters.1", "scalar_parameters.1 is missing"),
        ("ff.0.ff.linear_3.bias", "linear_3.bias is missing"),
        ("ff.0.ff.linear_2.weight", "linear_2.weight is missing"),
    ],
)
def test_checkpoint_of_something_else_is_not_converted(state, tmp_path, lost, said):
    import torch

    torch.save({name: tensor for name, tensor in state.items() if name != lost}, tmp_path / "other.ckpt")
    with pytest.raises(MetricError, match=said.replace(".", r"\.")):
        convert(tmp_path / "other.ckpt", tmp_path / "polos.safetensors")
    assert not (tmp_path / "polos.safetensors").exists()


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_checkpoint_with_code_is_refused_unread_and_the_error_says_what_helps(state, tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": state, "hparams": _Code()}, "reprod.ckpt")
    with pytest.raises(MetricError, match="holds pickled code") as raised:
        convert("reprod.ckpt", "polos.safetensors")
    assert "save its tensors alone" in raised.value.hint
    assert "weights_only" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["reprod.ckpt"]


def test_missing_weights_are_named_before_anything_runs_with_how_they_are_made(tmp_path: Path, roberta: str):
    for weights in (None, str(tmp_path / "reprod.ckpt")):
        with pytest.raises(MetricError, match=r"no such \.safetensors file") as raised:
            Polos(weights=weights, text_model=roberta).check()
        assert "capbench.metrics.polos.weights import convert" in raised.value.hint


def test_scores_from_the_command_line(weights, roberta, tiny_clip, alone, clip, pictures, tmp_path):
    rows = [
        {"id": str(number), "image": str(picture.source), "caption": caption, "references": list(references)}
        for number, (picture, caption, references) in enumerate(zip(pictures, CAPTIONS, REFERENCES, strict=True))
    ]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = f"pretrained={tiny_clip.checkpoint},architecture={tiny_clip.architecture},device=cpu"
    metric = f"polos[weights={weights},text_model={roberta},device=cpu]"
    code = main(
        [
            *("score", str(tmp_path / "captions.jsonl"), "--model", "open_clip", "--model_args", model),
            *("--metrics", metric, "--output", str(tmp_path / "out.jsonl")),
            *("--allow_outside", str(Path(str(pictures[0].source)).parent)),
        ]
    )
    assert code == 0
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    scores = alone.score(items(pictures), Context(encoder=clip)).values
    assert [next(v for k, v in row.items() if k.startswith("polos")) for row in written] == scores.tolist()

"""Our metrics with torchmetrics' interface give our own values, to the bit, batch by batch."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_images import noise_image

import capbench
from capbench.adapters import Encoder, ImageHandle
from capbench.adapters.aliases import resolve_model
from capbench.adapters.images.handles import as_png
from capbench.errors import DataError, MetricError, UsageError
from capbench.metrics import Context
from capbench.metrics.vectors.features import image_features, text_features

CAPTIONS = ["a dog runs over grass", "two cats sleep", "a red bus", "a dog runs over grass", ""]
REFERENCES = [
    ["a dog is running on grass", "the dog runs fast"],
    ["two cats are asleep"],
    ["a bus on a street", "a red double-decker bus"],
    ["a dog is running on grass", "the dog runs fast"],
    ["a man on a bicycle"],
]


@pytest.mark.parametrize("metric", ["bleu_4", "cider", "rouge_l", "length"])
def test_batches_of_captions_have_the_value_of_all_to_the_bit(metric: str):
    whole = capbench.score(predictions=CAPTIONS, references=REFERENCES, metrics=metric).system[metric]
    ours = capbench.as_torchmetrics(metric)
    for start in range(0, 5, 2):
        ours.update(CAPTIONS[start : start + 2], REFERENCES[start : start + 2])
    value = ours.compute()
    assert value.item() == whole
    assert (value.dtype, value.shape) == (torch.float64, ())
    assert ours.compute().item() == whole
    ours.reset()
    with pytest.raises(UsageError, match=r"no caption was added.*\nCall update before compute\.$"):
        ours.compute()


def test_settings_are_those_of_the_metric_and_what_needs_an_image_is_refused():
    plain = capbench.as_torchmetrics("cider", variant="plain")
    plain.update(CAPTIONS, REFERENCES)
    listed = capbench.score(predictions=CAPTIONS, references=REFERENCES, metrics="cider[variant=plain]")
    assert plain.compute().item() == next(iter(listed.system.values()))
    with pytest.raises(UsageError, match="'clip_s'"):
        capbench.as_torchmetrics("clip_s")
    assert plain.higher_is_better
    assert capbench.as_torchmetrics("rep_1").higher_is_better is False
    assert capbench.as_torchmetrics("length").higher_is_better is None


def test_call_gives_the_value_of_the_batch_and_keeps_it():
    ours = capbench.as_torchmetrics("bleu_1")
    first = ours(CAPTIONS[:2], REFERENCES[:2])
    assert (
        first.item()
        == capbench.score(predictions=CAPTIONS[:2], references=REFERENCES[:2], metrics="bleu_1").system["bleu_1"]
    )
    ours(preds=CAPTIONS[2:], target=REFERENCES[2:])
    whole = capbench.score(predictions=CAPTIONS, references=REFERENCES, metrics="bleu_1")
    assert ours.compute().item() == whole.system["bleu_1"]
    with pytest.raises(DataError):
        ours(["a dog"], [[""]])
    assert ours.compute().item() == whole.system["bleu_1"]


def test_one_text_is_a_caption_or_a_reference_and_one_that_says_nothing_counts_as_empty():
    ours = capbench.as_torchmetrics("bleu_1")
    ours.update("a dog", "a dog")
    assert ours.compute().item() == pytest.approx(1)
    ours.update(["..."], ["a dog"])
    # Two words of two are right, where references have four: exp(1 - 4/2).
    assert ours.compute().item() == pytest.approx(np.exp(-1))
    length = capbench.as_torchmetrics("length")
    length.update(["a dog", "a red bus"])
    assert length.compute().item() == 2.5


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ((["a", "b"], [["a"]]), UsageError, "captions and references differ in number: 2 and 1"),
        ((["a"],), UsageError, "captions and references differ in number: 1 and 0"),
        ((["a", "b"], [["a"], []]), DataError, "caption 1 of the batch: reference is an empty list"),
        (({"0": ["a"]}, {"0": ["a"]}), UsageError, "captions must be a list, not a mapping by id"),
        ((["a"], {"0": ["a"]}), UsageError, "references must be a list, not a mapping by id"),
    ],
)
def test_batches_that_cannot_be_scored_are_refused(batch, error: type, message: str):
    with pytest.raises(error, match=message):
        capbench.as_torchmetrics("bleu_1").update(*batch)


def test_metric_moves_with_the_module_that_holds_it():
    ours = capbench.as_torchmetrics("length")
    holder = torch.nn.ModuleDict({"score": ours})
    assert ours.device == torch.device("cpu")
    assert not ours.state_dict()
    holder.to("meta")
    assert ours.device.type == "meta"
    ours.update(["a dog"])
    assert ours.compute().device.type == "meta"


def tell(rank: int, store: Path, pipe: Connection) -> None:
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    ours = capbench.as_torchmetrics("cider")
    mine = slice(0, 2) if rank == 0 else slice(2, 5)
    of_batch = ours(CAPTIONS[mine], REFERENCES[mine])
    pipe.send((of_batch.item(), ours.compute().item()))
    distributed.destroy_process_group()


def test_processes_that_work_together_have_the_value_of_all(tmp_path: Path):
    forked = multiprocessing.get_context("fork")
    pipes = [forked.Pipe(duplex=False) for _ in range(2)]
    workers = [forked.Process(target=tell, args=(n, tmp_path / "store", there)) for n, (_, there) in enumerate(pipes)]
    for worker in workers:
        worker.start()
    (first, both), (second, again) = (here.recv() for here, _ in pipes)
    for worker in workers:
        worker.join()
    whole = capbench.score(predictions=CAPTIONS, references=REFERENCES, metrics="cider").system["cider"]
    assert both == again == whole
    assert whole not in (first, second)


@pytest.fixture(scope="module")
def shapes_clip() -> Encoder:
    return resolve_model("shapes-clip", {"device": "cpu"}).load()


IMAGES = [noise_image(number) for number in range(5)]
TENSORS = [torch.tensor(np.asarray(image)).permute(2, 0, 1) for image in IMAGES]


def test_clip_score_is_clip_s_to_the_bit(shapes_clip: Encoder):
    whole = capbench.score(predictions=CAPTIONS, images=IMAGES, metrics="clip_s", model=shapes_clip)
    ours = capbench.CLIPScore(shapes_clip, w=2.5, prompt="A photo depicts ")
    for start in range(0, 5, 2):
        ours.update(TENSORS[start : start + 2], CAPTIONS[start : start + 2])
    assert ours.compute().item() == whole.system["clip_s"]
    ours.reset()
    assert ours(CAPTIONS, [image.int() for image in TENSORS]).item() == whole.system["clip_s"]


def test_clip_score_has_the_settings_of_the_one_that_it_stands_for():
    ours = capbench.CLIPScore("shapes-clip")
    ours.update(torch.stack([TENSORS[2], TENSORS[2].flip(2)]), ["a red circle", "two blue squares"])
    handles = [ImageHandle(as_png(image)) for image in (noise_image(2), np.asarray(noise_image(2))[:, ::-1])]
    context = Context(encoder=ours.encoder)
    seen, read = (image_features(handles, context), text_features(["a red circle", "two blue squares"], context))
    cosines = (seen.vectors[seen.rows] * read.vectors[read.rows]).sum(axis=1)
    assert ours.compute().item() == pytest.approx(100 * np.maximum(cosines, 0).mean(), abs=1e-4)
    alone = capbench.CLIPScore("shapes-clip")
    alone.update(TENSORS[2], "a red circle")
    assert alone.compute().item() == pytest.approx(100 * max(cosines[0], 0), abs=1e-4)


def test_clip_of_a_folder_is_taken_as_of_the_hub_and_no_other_weights(tiny_clip):
    ours = capbench.CLIPScore(str(tiny_clip.hf_folder), batch_size=2)
    ours.update(TENSORS[:2], CAPTIONS[:2])
    assert 0 <= ours.compute().item() <= 100
    assert ours.encoder is ours.encoder
    with pytest.raises(UsageError, match="unknown model 'shapes-clop'"):
        capbench.CLIPScore("shapes-clop").update(TENSORS[:1], CAPTIONS[:1])
    with pytest.raises(UsageError, match="family"):
        capbench.CLIPScore("shapes-pac").update(TENSORS[:1], CAPTIONS[:1])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((["a"], ["b"]), "compares images with captions, not two of the same type"),
        (({"a.png": TENSORS[0]}, ["a"]), "images must be a list, not a mapping by id"),
        ((TENSORS[:1], TENSORS[:1]), "compares images with captions, not two of the same type"),
        ((TENSORS[:2], ["a"]), "captions and images differ in number: 1 and 2"),
        (([TENSORS[0] / 255], ["a"]), r"an image is a tensor of dtype torch.float32 and shape \[3, 40, 60\]"),
        (([TENSORS[0].int() * 2], ["a"]), "an image is a tensor of dtype torch.int32"),
        (([-TENSORS[0].int()], ["a"]), "an image is a tensor of dtype torch.int32"),
        (([3], ["a"]), "an image has the unknown type int"),
    ],
)
def test_what_is_no_image_with_a_caption_is_refused(shapes_clip: Encoder, batch, message: str):
    with pytest.raises(UsageError, match=message):
        capbench.CLIPScore(shapes_clip).update(*batch)


def test_image_that_cannot_be_read_is_an_error_and_no_silent_number(shapes_clip: Encoder, tmp_path: Path):
    ours = capbench.CLIPScore(shapes_clip)
    with pytest.raises(MetricError, match="clip_s: a caption has no score: image"):
        ours.update([tmp_path / "none.jpg"], ["a"])
    grey = torch.zeros((1, 9, 9), dtype=torch.uint8)
    ours.update([grey, np.zeros((9, 9), np.uint8)], ["a dog", "a dog"])
    assert len(set(ours._rows)) == 1

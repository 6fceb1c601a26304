import numpy as np
import pytest
import torch
from feature_rows import stacked

from capbench.adapters import ImageHandle, VideoHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.adapters.encoders.torch_encoder import released_precision
from capbench.adapters.images.pipeline import HAS_PROCESSES
from capbench.errors import AdapterError

pytestmark = pytest.mark.costly

_TEXTS = [f"{'very ' * (n // 12)}small dog number {n % 10}" for n in range(23)]


def test_input_that_does_not_fit_alone_is_a_failure_of_its_own(tiny_clip):
    class NoLongTexts(OpenClipEncoder):
        def _text_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            if inputs["text"].shape[1] > 20 or len(inputs["text"]) > 1:
                raise torch.OutOfMemoryError
            return super()._text_vectors(inputs)

    encoder = NoLongTexts(str(tiny_clip.open_clip_folder), batch_size=1)
    batches = list(encoder.texts(["a dog", "word " * 30, "a cat"]))
    assert sorted(p for batch in batches for p in batch.vectors) == [0, 2]
    failures = {p: reason for batch in batches for p, reason in batch.failures.items()}
    assert failures == {1: "does not fit into the device's memory"}


def test_features_do_not_depend_on_the_batch(tiny_clip, photographs: list[ImageHandle]):
    encoder = OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu")
    texts = [f"{'very ' * (n % 7)}small dog" * (1 + n % 3 * 20) for n in range(23)]
    for encode, inputs in ((encoder.images, photographs), (encoder.texts, texts)):
        whole = stacked(encode(inputs))
        for size in (1, 2, 3, 5):
            parts = [stacked(encode(inputs[at : at + size])) for at in range(0, len(inputs), size)]
            assert (np.concatenate(parts) == whole).all()


def test_vectors_are_kept_alone_not_with_their_batch(tiny_clip):
    encoder = OpenClipEncoder(str(tiny_clip.open_clip_folder))
    rows = [row for batch in encoder.texts(_TEXTS) for row in batch.vectors.values()]
    assert len(rows) == len(_TEXTS)
    for row in rows:
        assert isinstance(row, np.ndarray)
        assert row.base is None


def test_recorded_features_of_frames_are_checked_and_passed_on(tiny_clip, tmp_path):
    encoder = OpenClipEncoder(str(tiny_clip.open_clip_folder))
    recorded = np.random.default_rng(0).normal(size=(5, 32))
    np.save(tmp_path / "good.npy", recorded)
    np.save(tmp_path / "other.npy", np.zeros((5, 48), dtype=np.float32))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    names = ("good.npy", "other.npy", "bad.npy", "missing.npy")
    batches = list(encoder.frames([VideoHandle(tmp_path / name) for name in names]))
    (vectors,) = [batch.vectors[0] for batch in batches if batch.vectors]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, recorded.astype(np.float32))
    failures = {position: reason for batch in batches for position, reason in batch.failures.items()}
    assert sorted(failures) == [1, 2, 3]
    for position, reason in failures.items():
        assert str(tmp_path / names[position]) in reason
    assert "features of shape [5, 48], the model's are [frames, 32]" in failures[1]


def test_released_precision_is_that_of_clip_load(tiny_clip):
    # clip.py has model.float() where str(device) == "cpu", and the fp16 weights of the archive elsewhere.
    assert released_precision(torch.device("cuda:1")) == "fp16"
    plain, released = (
        OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu", dtype=dtype) for dtype in ("fp32", "released")
    )
    assert released.fingerprint() == plain.fingerprint()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("transform", ["exact", "fast"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_gpu_has_nearly_the_features_of_the_cpu(dtype, transform, tiny_clip, photographs):
    cpu = OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu")
    gpu = OpenClipEncoder(
        str(tiny_clip.open_clip_folder), device="cuda", dtype=dtype, transform=transform, batch_size=5
    )
    for name, inputs in (("images", photographs), ("texts", _TEXTS)):
        expected, vectors = (stacked(getattr(encoder, name)(inputs)).astype(np.float32) for encoder in (cpu, gpu))
        norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(vectors, axis=1)
        least = 0.9999 if (dtype, transform) == ("fp32", "exact") or name == "texts" else 0.99
        assert ((expected * vectors).sum(axis=1) / norms).min() > (least if dtype == "fp32" else 0.98)


@pytest.mark.skipif(not HAS_PROCESSES, reason="needs fork")
def test_processes_read_what_threads_read(tiny_clip, photographs: list[ImageHandle]):
    folder = str(tiny_clip.open_clip_folder)
    by_threads = OpenClipEncoder(folder, reading="threads")
    by_processes = OpenClipEncoder(folder, reading="processes", workers=1)
    assert np.array_equal(stacked(by_processes.images(photographs)), stacked(by_threads.images(photographs)))
    assert by_processes.fingerprint() == by_threads.fingerprint()


def test_reading_that_is_not_known_is_an_error(tiny_clip):
    with pytest.raises(AdapterError, match="reading=fibres is not known"):
        OpenClipEncoder(str(tiny_clip.open_clip_folder), reading="fibres")

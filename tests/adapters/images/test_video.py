"""Frames of videos, and features that were recorded of them."""

import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from capbench.adapters import FrameSampling, VideoHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.adapters.images.video import UnreadableVideo, read_frames, sample_frames
from capbench.benchmarks.scale.shards import KeptFrames
from capbench.boundary import OutsideFile
from capbench.errors import AdapterError


def video(path: Path, frames: int = 6, options: dict[str, str] | None = None) -> Path:
    """Write a video whose frames grow brighter, from 0 by 40; a column at the left is white."""
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(frames):
            pixels = np.full((48, 64, 3), 40 * number, dtype=np.uint8)
            pixels[:, :16] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def test_every_frame_is_decoded_in_order(tmp_path: Path):
    frames = list(read_frames(VideoHandle(video(tmp_path / "v.mp4"))))
    assert [image.size for image in frames] == [(64, 48)] * 6
    assert [image.mode for image in frames] == ["RGB"] * 6
    brightness = [float(np.asarray(image)[:, 20:].mean()) for image in frames]
    assert brightness == pytest.approx([0, 40, 80, 120, 160, 200], abs=4)


def test_a_video_that_says_so_is_turned_upright(tmp_path: Path):
    path = video(tmp_path / "v.mp4", 1)
    content = path.read_bytes()
    # The track header's matrix: as it is stored, and a quarter turn clockwise, which OpenCV too applies.
    stored = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    turned = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    header = content.index(b"tkhd")
    path.write_bytes(content[:header] + content[header:].replace(stored, turned, 1))
    (frame,) = read_frames(VideoHandle(path))
    assert frame.size == (48, 64)
    top, bottom = np.asarray(frame)[[4, -5], 24, 0]
    assert (top > 200, bottom < 50) == (True, True)


def test_frames_are_decoded_as_they_are_asked_for(tmp_path: Path):
    frames = read_frames(VideoHandle(video(tmp_path / "v.mp4", 3)))
    assert isinstance(frames, Iterator)
    assert next(frames).size == (64, 48)


@pytest.mark.parametrize(
    ("sampling", "span", "places"),
    [
        (FrameSampling(3), None, [0, 2, 5]),
        (FrameSampling(1), None, [0]),
        (FrameSampling(8), None, [0, 1, 2, 3, 4, 5]),
        # 6 frames last 1.2 s.
        (FrameSampling(8, fps=2.5), None, [0, 2, 5]),
        (FrameSampling(2, fps=2.5), None, [0, 5]),
        (FrameSampling(8, fps=0.1), None, [0]),
        (FrameSampling(8), (2.0, 4.0, 4.0), [3, 4, 5]),
        (FrameSampling(2), (1.0, 3.0, 4.0), [1, 3]),
    ],
)
@pytest.mark.parametrize("container", ["mp4", "mkv"])  # the header of mp4 tells how many frames there are
def test_frames_are_sampled_at_equal_distances(tmp_path, container, sampling, span, places):
    sampled = sample_frames(VideoHandle(video(tmp_path / f"v.{container}"), span), sampling)
    brightness = [float(np.asarray(image)[:, 20:].mean()) for image in sampled.frames]
    assert brightness == pytest.approx([40 * place for place in places], abs=4)
    start = 0 if span is None else int(span[0] * 6 / 4)
    assert [start + place for place in sampled.places] == places
    assert (sampled.total, sampled.rate) == (6 if span is None else 3, 5.0)


def test_what_frames_cannot_be_sampled_from_is_named(tmp_path: Path):
    np.save(tmp_path / "v.npy", np.zeros((3, 4)))
    with pytest.raises(UnreadableVideo, match=r"v\.npy: holds features of frames"):
        sample_frames(VideoHandle(tmp_path / "v.npy"), FrameSampling(2))
    with pytest.raises(UnreadableVideo, match="no frame of 6 lies in"):
        sample_frames(VideoHandle(video(tmp_path / "v.mp4"), (3.0, 4.0, 1.2)), FrameSampling(2))
    drawn = VideoHandle(KeptFrames("digest", "drawn", [np.zeros((4, 6, 3), np.uint8)] * 3))
    assert len(sample_frames(drawn, FrameSampling(2)).frames) == 2
    with pytest.raises(UnreadableVideo, match="drawn: has no frame rate"):
        sample_frames(drawn, FrameSampling(2, fps=1.0))


@pytest.mark.parametrize("content", [b"", b"no video at all", b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n"])
def test_a_file_that_is_no_video_is_named(tmp_path: Path, content: bytes):
    path = tmp_path / "v.mp4"
    path.write_bytes(content)
    with pytest.raises(UnreadableVideo, match=r"v\.mp4: no video in a known format, or damaged after 0 frames"):
        list(read_frames(VideoHandle(path)))


def test_a_playlist_opens_no_other_file(tmp_path: Path):
    video(tmp_path / "other.mp4")
    path = tmp_path / "v.mp4"
    path.write_text("ffconcat version 1.0\nfile other.mp4\n")
    with pytest.raises(UnreadableVideo, match="no video in a known format"):
        list(read_frames(VideoHandle(path)))


def test_a_video_that_breaks_off_is_named(tmp_path: Path):
    path = video(tmp_path / "v.mp4")
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(UnreadableVideo, match=r"v\.mp4"):
        list(read_frames(VideoHandle(path)))


@pytest.mark.parametrize(
    ("name", "options"),
    [("v.mp4", {"movflags": "faststart"}), ("v.mov", {"movflags": "faststart"}), ("v.mkv", {}), ("v.avi", {})],
)
def test_a_video_that_lacks_its_last_frames_is_truncated(tmp_path: Path, name: str, options: dict[str, str]):
    path = video(tmp_path / name, options=options)
    assert len(list(read_frames(VideoHandle(path)))) == 6
    whole = path.read_bytes()
    path.write_bytes(whole[:-300])
    with pytest.raises(UnreadableVideo, match="is truncated: 300 bytes are missing"):
        list(read_frames(VideoHandle(path)))
    path.write_bytes(whole + bytes(300))
    assert len(list(read_frames(VideoHandle(path)))) == 6


def test_a_video_whose_length_its_writer_did_not_know_is_read(tmp_path: Path):
    path = video(tmp_path / "v.mkv", options={"live": "1"})
    assert len(list(read_frames(VideoHandle(path)))) == 6


def test_a_file_without_video_stream_is_named(tmp_path: Path):
    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono")
        sound.sample_rate = 16000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with pytest.raises(UnreadableVideo, match="has no video stream"):
        list(read_frames(VideoHandle(path)))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(UnreadableVideo, match=r"gone\.mp4: there is no such file"):
        read_frames(VideoHandle(tmp_path / "gone.mp4"))


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = video(tmp_path / "v.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AdapterError, match=r"pip install 'capbench\[video\]'"):
        list(read_frames(VideoHandle(path)))


def test_recorded_features_are_read_from_npy_and_pt(tmp_path: Path):
    features = np.arange(12, dtype=np.float64).reshape(3, 4)
    np.save(tmp_path / "v.npy", features)
    torch.save(torch.from_numpy(features).half().requires_grad_(), tmp_path / "v.pt")
    for name in ("v.npy", "v.pt"):
        frames = read_frames(VideoHandle(tmp_path / name, (0.0, 1.0, 2.0)))
        assert isinstance(frames, np.ndarray)
        assert frames.dtype == np.float32
        np.testing.assert_array_equal(frames, features)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.mkdir, (self.path,)


def test_code_in_recorded_features_does_not_run(tmp_path: Path):
    trap = Trap(tmp_path / "it ran")
    torch.save(trap, tmp_path / "v.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(trap))
    np.save(tmp_path / "v.npy", np.array([[trap]], dtype=object), allow_pickle=True)
    for name in ("v.pt", "plain.pt", "v.npy"):
        with pytest.raises(UnreadableVideo, match=f"{name}: holds no plain array of features"):
            read_frames(VideoHandle(tmp_path / name))
    assert not (tmp_path / "it ran").exists()


def test_recorded_features_of_another_shape_are_refused(tmp_path: Path):
    np.save(tmp_path / "flat.npy", np.zeros(4))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    torch.save({"features": torch.zeros(2, 4)}, tmp_path / "dict.pt")
    for name in ("flat.npy", "text.npy", "dict.pt"):
        with pytest.raises(UnreadableVideo, match=f"{name}: expected"):
            read_frames(VideoHandle(tmp_path / name))


def test_a_model_encodes_each_frame_of_a_video(tmp_path: Path, tiny_clip):
    encoder = OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu", batch_size=4)
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    good, bad = encoder.frames([VideoHandle(video(tmp_path / "v.mp4")), VideoHandle(tmp_path / "bad.mp4")])
    assert good.vectors[0].shape == (6, 32)
    assert "bad.mp4" in bad.failures[1]


@pytest.mark.parametrize("name", ["a\0b.npy", "\ud800.mp4", "x" * 300 + ".mp4"])
def test_name_that_no_file_system_takes_is_a_video_that_cannot_be_read(name: str):
    handle = VideoHandle(Path(name))
    with pytest.raises(UnreadableVideo, match="there is no such file") as caught:
        read_frames(handle)
    str(caught.value).encode("utf-8")
    with pytest.raises(OSError):
        handle.digest()


def test_video_that_may_not_be_read_says_why(tmp_path: Path):
    with pytest.raises(UnreadableVideo, match="lies outside of the folders of the task and its data"):
        read_frames(VideoHandle(OutsideFile(tmp_path / "a.mp4")))

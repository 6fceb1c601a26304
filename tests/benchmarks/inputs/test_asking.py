"""How captioners are asked: window by window, with what the store knows left out, whatever each request meets."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capbench
from capbench.adapters import Caption, Captioned, Captioner, CaptionRequest, FrameSampling, ImageHandle, VideoHandle
from capbench.benchmarks.inputs import asking
from capbench.benchmarks.inputs.asking import answers, merged
from capbench.benchmarks.inputs.failures import Failure, Stage, outcome, summarise
from capbench.benchmarks.inputs.settings import RunSettings, read_metric, split_metrics
from capbench.benchmarks.store.store import Store
from capbench.errors import AdapterError, UsageError
from capbench.metrics import NoCache


class Model(Captioner):
    """Answers by a request's id in one of six ways; remembers the batches that it was asked for."""

    def __init__(self, batch_size: int = 8, keep: bool = True) -> None:
        self.batch_size = batch_size
        self.keep = keep
        self.batches: list[list[str]] = []
        self.questions = 0

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "six ways"}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        size = batch_size or self.batch_size
        self.questions += 1
        for start in range(0, len(requests), size):
            part = range(start, min(start + size, len(requests)))
            self.batches.append([requests[at].id for at in part])
            way = {at: self.way(requests[at].id) for at in part}
            # Refused at first, and written by itself after that.
            yield Captioned(failures={at: "refused" for at in part if way[at] in ("failure", "second try")})
            yield Captioned(
                {at: caption(requests[at].id) for at in part if way[at] in ("caption", "second try")},
                unseen={at: "no image" for at in part if way[at] == "unseen"},
                absent=frozenset(at for at in part if way[at] == "absent"),
            )

    @staticmethod
    def way(identity: str) -> str:
        ways = ("caption", "failure", "second try", "unseen", "absent", "silence")
        number = int(identity)
        return "caption" if number % 7 else ways[number // 7 % len(ways)]


def caption(identity: str) -> Caption:
    return Caption(f"a picture of {identity}", tokens=len(identity), cut=False)


def request(number: int, **more: Any) -> CaptionRequest:
    return CaptionRequest(str(number), f"{number}.jpg", "Describe.", {"temperature": 0}, **more)


def test_every_request_is_answered_once_in_one_of_four_ways():
    pieces = list(answers(Model(), (request(n) for n in range(300)), NoCache(), total=300))

    positions = [at for piece in pieces for at in (*piece.captions, *piece.failures, *piece.unseen, *piece.absent)]
    assert sorted(positions) == list(range(300))
    whole = merged(pieces)
    by_way = {way: [n for n in range(300) if Model.way(str(n)) == way] for way in
              ("caption", "failure", "second try", "unseen", "absent", "silence")}  # fmt: skip
    assert list(whole.captions) == sorted(by_way["caption"] + by_way["second try"])
    assert whole.captions[14] == caption("14")
    assert whole.failures == {
        **dict.fromkeys(by_way["failure"], "refused"),
        **dict.fromkeys(by_way["silence"], "was not given by the model"),
    }
    assert whole.unseen == dict.fromkeys(by_way["unseen"], "no image")
    assert whole.absent == set(by_way["absent"])


@settings(max_examples=20)
@given(st.integers(0, 700), st.integers(1, 100), st.none() | st.integers(1, 300))
def test_batches_are_those_of_one_question_for_all(count: int, own: int, of_the_run: int | None):
    model = Model(own)
    whole = merged(answers(model, map(request, range(count)), NoCache(), of_the_run))

    size = of_the_run or own
    ids = [str(n) for n in range(count)]
    assert model.batches == [ids[start : start + size] for start in range(0, count, size)]
    # Few requests are one question.
    assert model.questions == min(count, 1) or count > 64
    assert whole == merged([*answers(Model(1), map(request, range(count)), NoCache())])


@pytest.mark.parametrize("lost", [lambda n: n % 2 == 0, lambda n: n < 150, lambda n: n % 40 == 39])
def test_what_the_store_knows_is_not_asked_for(tmp_path, lost):
    requests = [request(n) for n in range(400)]
    with Store(tmp_path / "store.sqlite") as store:
        known = [request for n, request in enumerate(requests) if not lost(n)]
        first = merged(answers(Model(), known, store))
        reported: list[tuple[int, int]] = []
        model = Model()
        whole = merged(answers(model, iter(requests), store, 8, lambda *done: reported.append(done), 400))

    written = {known[at].id: caption for at, caption in first.captions.items()}
    asked = [request.id for request in requests if request.id not in written]
    assert model.batches == [asked[start : start + 8] for start in range(0, len(asked), 8)]
    assert {requests[at].id: caption for at, caption in whole.captions.items()} == {
        request.id: caption(request.id) for request in requests if Model.way(request.id) in ("caption", "second try")
    }
    assert reported == sorted(reported)
    assert reported[-1] == (len(whole.captions), 400)


def test_keys_of_older_stores_are_known(tmp_path):
    image = tmp_path / "1.jpg"
    image.write_bytes(b"pixels")
    digest = ImageHandle(b"pixels").digest()
    keys = [
        f'["Describe.", {{"temperature": 0}}, "{digest}", "1"]',
        '["Describe.", {"temperature": 0}, "2.jpg", "2"]',
        '["Describe.", {"temperature": 0}, "3.jpg", "3"]',
        '["Décris.", {"temperature": 0, "until": "."}, "né.jpg", "4"]',
    ]
    requests = [
        request(1, pixels=ImageHandle(image)),
        request(2),
        # Its file is missing, which is for the captioner to say.
        request(3, pixels=ImageHandle(tmp_path / "3.jpg")),
        CaptionRequest("4", "né.jpg", "Décris.", {"until": ".", "temperature": 0}),
    ]
    with Store(tmp_path / "store.sqlite") as store:
        store.put(Model().fingerprint(), dict.fromkeys(keys, asdict(Caption("known"))))
        model = Model()
        captioned = merged(answers(model, requests, store))

    assert model.batches == []
    assert captioned.captions == dict.fromkeys(range(4), Caption("known"))


def test_caption_of_a_video_is_kept_for_its_frames(tmp_path):
    video = tmp_path / "1.mp4"
    video.write_bytes(b"frames")
    shown = [
        request(1, pixels=VideoHandle(video), sampling=FrameSampling(4)),
        request(1, pixels=VideoHandle(video), sampling=FrameSampling(4, fps=1)),
        request(1, pixels=VideoHandle(video, (0, 1, 2)), sampling=FrameSampling(4)),
    ]
    model = Model()
    with Store(tmp_path / "store.sqlite") as store:
        for other in [*shown, *shown]:
            merged(answers(model, [other], store))
    assert len(model.batches) == len(shown)


def test_captions_that_are_not_worth_keeping_are_neither_looked_up_nor_kept_nor_hashed(tmp_path):
    unread = ImageHandle(tmp_path / "folder that nobody looks into" / "1.jpg")
    with Store(tmp_path / "store.sqlite") as store:
        for _ in range(2):
            model = Model(keep=False)
            merged(answers(model, [request(n, pixels=unread) for n in range(1, 5)], store))
            assert model.batches == [["1", "2", "3", "4"]]
        assert store.stats() == []


class Dies(Model):
    """Fails as a whole at its third batch."""

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        for batch in super().stream(requests, batch_size):
            if len(self.batches) == 3:
                raise AdapterError("the model ran out of memory")
            yield batch


def test_batches_before_a_failure_of_the_model_are_kept(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        with pytest.raises(AdapterError):
            merged(answers(Dies(), map(request, range(100)), store))
        model = Model()
        merged(answers(model, map(request, range(100)), store))

    assert "15" not in model.batches[0]
    assert model.batches[0] == ["7", "16", "17", "18", "19", "20", "21", "22"]


@dataclass(frozen=True)
class Watched:
    """An encoded image that counts how often one of its kind is read."""

    number: int
    reads: list[int]

    def read_bytes(self) -> bytes:
        self.reads.append(self.number)
        return b"%d" % self.number

    def __hash__(self) -> int:
        return self.number


class First(Exception):  # noqa: N818 - no error
    """The first question has been asked."""


class Stops(Captioner):
    """Ends at the first question."""

    batch_size = 32

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        raise First


def test_first_question_is_asked_before_more_than_two_windows_are_hashed(tmp_path):
    reads: list[int] = []
    taken: list[int] = []

    def requests() -> Iterator[CaptionRequest]:
        for number in range(1_000):
            taken.append(number)
            yield request(number, pixels=ImageHandle(Watched(number, reads)))

    before = threading.active_count()
    with Store(tmp_path / "store.sqlite") as store, pytest.raises(First):
        merged(answers(Stops(), requests(), store, total=1_000))

    assert set(range(64)) <= set(reads) <= set(range(64 + 128))
    assert len(taken) == 64 + 128
    assert threading.active_count() == before


class Watches(Model):
    """Notes how many images were read whenever it is asked."""

    def __init__(self, reads: list[int]) -> None:
        super().__init__(32)
        self.reads, self.noted = reads, dict[int, int]()

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        self.noted[len(requests)] = len(self.reads)
        yield from super().stream(requests, batch_size)


def test_windows_grow_and_each_image_is_hashed_once(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "_LAST_WINDOW", 512)
    reads: list[int] = []
    model = Watches(reads)
    requests = (request(n, pixels=ImageHandle(Watched(n, reads))) for n in range(2_000))
    with Store(tmp_path / "store.sqlite") as store:
        merged(answers(model, requests, store))

    assert sorted(reads) == list(range(2_000))
    # 64, 128, 256, 512, and 512 again: the model is seldom left without work, and no more is in memory.
    assert list(model.noted) == [64, 128, 256, 512, 2_000 - 4 * 512 + 64]


# -- What became of samples that could not be used


@pytest.mark.parametrize(
    ("stage", "said"),
    [("data", "left out"), ("image", "left out"), ("rating", "left out"), ("model", "failed"), ("metric", "failed")],
)
def test_what_may_succeed_when_asked_again_failed_and_the_rest_is_left_out(stage: Stage, said: str):
    (summary,) = summarise([Failure("a", stage, "is not there")])
    assert outcome(summary) == said


# -- What a user may set for a run


def test_intervals_are_made_in_one_of_the_ways_that_there_are():
    assert RunSettings().intervals == "auto"
    wrong: dict[str, Any] = {"intervals": "jackknife"}
    with pytest.raises(UsageError, match="intervals: Input should be 'auto', 'bootstrap' or 'influence'"):
        RunSettings.from_arguments(wrong)


def test_records_say_how_intervals_are_made_where_that_was_set():
    # Records of earlier versions, which knew one way, stay what they are.
    assert "intervals" not in RunSettings().to_json()
    assert RunSettings(intervals="influence").to_json()["intervals"] == "influence"


# -- names of metrics


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("bleu_1,cider", ["bleu_1", "cider"]),
        (" bleu_1 , ,cider", ["bleu_1", "cider"]),
        (["cider[variant=plain]", "length,rep_2"], ["cider[variant=plain]", "length", "rep_2"]),
        ("clip_s[w=1,prompt=A],cider", ["clip_s[w=1,prompt=A]", "cider"]),
        ([], []),
    ],
)
def test_commas_inside_of_brackets_divide_nothing(names: str | list[str], expected: list[str]):
    assert split_metrics(names) == expected


def test_settings_in_brackets_go_to_the_metric_and_the_result_has_the_whole_name():
    entry = read_metric("bertscore[model=a/b,num_layers=5]")
    assert (entry.metric, entry.name) == ("bertscore", "bertscore[model=a/b,num_layers=5]")
    assert entry.arguments == {"model": "a/b", "num_layers": 5}


@pytest.mark.parametrize("name", ["cider[", "cider]", "[variant=plain]", "cider[variant=plain]x", "cider[plain]"])
def test_what_is_not_of_that_form_is_refused(name: str):
    with pytest.raises(UsageError, match="metric"):
        read_metric(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("cider[higher_is_better=maybe]", "higher_is_better: Input should be a valid boolean"),
        ("cider[aggregation=median]", "aggregation: Input should be 'mean' or 'corpus'"),
    ],
)
def test_setting_that_all_metrics_have_is_refused_where_its_value_is_none(name: str, fault: str):
    with pytest.raises(UsageError, match=fault):
        read_metric(name)


def test_variant_of_a_metric_is_scored_beside_it():
    rows = [
        {"candidate": "a dog runs", "references": ["a dog runs fast", "the dog runs"]},
        {"candidate": "a cat", "references": ["a cat sits on a mat", "one cat"]},
    ]
    table = capbench.score(rows, "cider,cider[variant=plain]")
    assert table.system["cider"] != table.system["cider[variant=plain]"]

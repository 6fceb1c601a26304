"""A hub on this machine with what the headline command asks for."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hub_runs import DETAILCAPS, FACTUAL, LLAVA, MPNET, Bench, call_bench, write_detailcaps
from hub_server import Hub, served_hub
from tiny_capture import find_minilm, make_nltk_data, make_t5, make_wordnet

from capbench.metrics.vectors.checkpoints import PINNED


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub without repositories."""
    with served_hub(tmp_path / "on_the_hub") as served:
        yield served


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables that name a small WordNet and small data of NLTK."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "wordnet").mkdir()
    nltk, wordnet = make_nltk_data(folder / "nltk"), make_wordnet(folder / "wordnet")
    return {"NLTK_DATA": str(nltk), "WNSEARCHDIR": str(wordnet)}


@pytest.fixture
def bench(hub: Hub, tmp_path: Path, words: dict[str, str]) -> Bench:
    """Return a function that calls ``bench`` as a process that knows this hub alone, from an empty cache."""
    return partial(call_bench, hub, tmp_path, **words)


@pytest.fixture(scope="session")
def t5(made_once: Callable[..., Path]) -> Path:
    return made_once("t5", make_t5)


@pytest.fixture(scope="session")
def pickled_t5(made_once: Callable[..., Path], t5: Path) -> Path:
    """The same with pickled weights, which transformers would have converted by the hub."""

    def make(folder: Path) -> None:
        import torch
        from safetensors.torch import load_file

        shutil.copytree(t5, folder, dirs_exist_ok=True)
        weights = folder / "model.safetensors"
        torch.save(load_file(weights), folder / "pytorch_model.bin")
        weights.unlink()

    return made_once("pickled_t5", make)


@pytest.fixture
def headline(hub: Hub, tmp_path: Path, tiny_llava: Path, pickled_t5: Path) -> Hub:
    """The hub with what ``bench run --model llava-1.5 --task detailcaps`` asks for."""
    hub.add(LLAVA, tiny_llava)
    hub.add(FACTUAL, pickled_t5)
    hub.add(MPNET, find_minilm(), commit=PINNED[MPNET])
    hub.add(DETAILCAPS, write_detailcaps(tmp_path / "detailcaps"), "dataset")
    return hub

"""The shapes world's encoder as it ships, and with random weights."""

from collections.abc import Callable
from pathlib import Path

import pytest

import capbench
from capbench.benchmarks.tables.results import Run
from capbench.recipes.shapes.world.clip import build, write_encoder


@pytest.fixture(scope="session")
def random_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model like shapes-clip, with random weights."""
    from transformers import AutoTokenizer

    from capbench.adapters.aliases import resolve_model

    shipped = resolve_model("shapes-clip", "").arguments["pretrained"]
    tokenizer = AutoTokenizer.from_pretrained(shipped)
    folder = tmp_path_factory.mktemp("random")
    write_encoder(build(len(tokenizer), seed=0).state_dict(), tokenizer, folder)
    return folder


@pytest.fixture(scope="session")
def measure(tmp_path_factory: pytest.TempPathFactory, random_clip: Path) -> Callable[..., tuple[Run, Run]]:
    """Return a function that runs tasks with the trained and with the random model."""
    store = tmp_path_factory.mktemp("store") / "store.sqlite"

    def both(*tasks: str, **settings: object) -> tuple[Run, Run]:
        options = {"store": store, "output_path": None, "resamples": 0, **settings}
        trained = capbench.evaluate("shapes-clip", list(tasks), **options)
        guessing = capbench.evaluate("open_clip", list(tasks), model_args={"pretrained": str(random_clip)}, **options)
        return trained, guessing

    return both

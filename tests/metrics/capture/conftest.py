"""Small models in the real file formats: a T5, NLTK's data, a WordNet; and a real sentence encoder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_capture import make_t5


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_t5(tmp_path_factory.mktemp("t5")))


@pytest.fixture
def write_graphs(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes rows of graphs, and gives the file."""
    import json

    def write(*rows: Any) -> str:
        file = tmp_path / "graphs.jsonl"
        file.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
        return str(file)

    return write


@pytest.fixture
def capture(wordnet_folder: str, minilm: str, nltk_data: str) -> Callable[..., Any]:
    """Return a function that builds CAPTURE on recorded graphs."""
    from capbench.metrics.capture.metric import Capture

    def build(file: str, **settings: Any) -> Capture:
        defaults = {"parser": "recorded", "parser_model": file, "encoder": minilm}
        return Capture(**{**defaults, "wordnet": wordnet_folder, **settings})

    return build

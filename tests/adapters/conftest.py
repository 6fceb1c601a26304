"""Photographs of data sets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.adapters import ImageHandle


@pytest.fixture
def photographs(data_folder: Callable[[str], Path]) -> list[ImageHandle]:
    """Photographs of two data sets."""
    flickr = sorted((data_folder("flickr8k") / "images").glob("*.jpg"))[:12]
    coco = sorted((data_folder("coco_mini")).rglob("*.jpg"))[:12]
    assert len(flickr) == len(coco) == 12
    return [ImageHandle(path) for path in (*flickr, *coco)]

"""Tiny models, loaded once, whose captions end soon."""

from pathlib import Path

import pytest

from capbench.adapters.captioners.hf import HfCaptioner


def _load(folder: Path) -> HfCaptioner:
    captioner = HfCaptioner(str(folder), device="cpu")
    # Every 3rd token ends a caption, so that searches complete some.
    captioner.model.generation_config.eos_token_id = list(range(60, captioner.model.lm_head.out_features, 3))
    return captioner


@pytest.fixture(scope="module")
def llava(tiny_llava: Path) -> HfCaptioner:
    return _load(tiny_llava)


@pytest.fixture(scope="module")
def qwen2_vl(tiny_qwen2_vl: Path) -> HfCaptioner:
    return _load(tiny_qwen2_vl)


@pytest.fixture(scope="module")
def idefics3(tiny_idefics3: Path) -> HfCaptioner:
    return _load(tiny_idefics3)

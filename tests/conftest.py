"""What all tests share: the folder of raw data sets, and a cache of their own."""

import atexit
import fcntl
import gc
import gettext
import hashlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny_lvlm
from hypothesis import settings
from tiny_clip import TinyClip, make_tiny_clip, make_tiny_siglip, make_tiny_siglip2
from tiny_dci import make_tiny_dci
from tiny_spacy import make_tiny_spacy

MadeOnce = Callable[[str, Callable[[Path], object]], Path]

# The hub's library reads this when it is imported; no test may reach for the network.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tiny models are done before a second thread has begun; on a shared machine they wait for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Jars run for seconds: to compile their code as well as can be takes longer than it saves.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
# A shared machine can stall any example for longer than hypothesis' deadline of 200 ms; each run of the tests draws
# other examples, so that half of the usual 100 find as much in twice as many runs.
settings.register_profile("capbench", deadline=None, max_examples=50)
settings.load_profile("capbench")
# Each parser of arguments looks for translations on the disk, string by string, and tests make thousands of parsers.
gettext.find = cache(gettext.find)
if "PYTEST_XDIST_WORKER" in os.environ:
    # After all else that ends with it: to take apart what a worker imported takes seconds, and nobody looks at it.
    atexit.register(os._exit, 0)
# Nothing that collection and imports make is garbage: to look through all of it again and again takes seconds.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules of costly tests in each worker's share: what is left to the end is short."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    costly = {item.path for item in items if {"costly", "ray"} & {mark.name for mark in item.iter_markers()}}
    first, rest = ([item for item in items if (item.path in costly) is part] for part in (True, False))
    items[:] = [
        item
        for worker in range(workers)
        for part in (first, rest)
        for item in part[len(part) * worker // workers : len(part) * (worker + 1) // workers]
    ]


def pytest_collection_finish() -> None:
    """Leave what was made so far aside, and collect garbage of tests from here on, in larger portions than usual."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the end of the process find what libraries say was leaked otherwise."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        gc.unfreeze()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: a forked process has no other, and sums are those of one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same in every worker of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def made_once(session_folder: Path) -> MadeOnce:
    """Return a function that gives a folder of this session, made by the first worker that needs it."""

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        finished, draft = session_folder / f"made_{name}", session_folder / f"draft_{name}"
        with (session_folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                draft.mkdir(exist_ok=True)
                make(draft)
                draft.rename(finished)
        return finished

    return folder


@pytest.fixture(scope="session")
def _meteor_tables(request: pytest.FixtureRequest, session_folder: Path) -> Path:
    """A folder for METEOR's tables, which take ten core-seconds to make: one for all tests and their processes.

    It is kept from session to session, in pytest's cache, for as long as the code that makes the tables is the same.
    ``CAPBENCH_METEOR`` names a folder where this code has made them already.
    """
    if folder := os.environ.get("CAPBENCH_METEOR"):
        return Path(folder)
    metrics = Path(__file__).parents[1] / "metrics"
    code = b"".join((metrics / name).read_bytes() for name in ("mapped.py", "meteor/resources.py"))
    kept = getattr(request.config, "cache", None)  # there is none with "-p no:cacheprovider"
    if kept is not None:
        return kept.mkdir(f"meteor-{hashlib.sha256(code).hexdigest()[:16]}")
    folder = session_folder / "meteor"
    folder.mkdir(exist_ok=True)
    return folder


_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test; pytest's own looks through those of all tests before, and takes longer than most tests."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_folders)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _meteor_tables: Path) -> None:
    """Keep tests away from the user's store and data sets."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "meteor").symlink_to(_meteor_tables)
    monkeypatch.setenv("BENCH_CACHE", str(cache))


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def data_folder() -> Callable[[str], Path]:
    """Return a function that gives the folder of a raw data set, or skips the test."""

    def folder(name: str) -> Path:
        root = os.environ.get("CAPBENCH_DATA")
        path = Path(root) / name if root else None
        if path is not None and path.is_dir():
            return path
        reason = f"needs the raw data set '{name}': CAPBENCH_DATA names the folder that holds it"
        if os.environ.get("CAPBENCH_REQUIRE_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)

    return folder


@pytest.fixture(scope="session")
def tiny_clip(made_once: MadeOnce) -> TinyClip:
    """The same tiny CLIP in every format."""
    return TinyClip.of(made_once("tiny_clip", make_tiny_clip))


@pytest.fixture(scope="session")
def tiny_encoder(tiny_clip: TinyClip) -> Any:
    """The tiny CLIP as open_clip reads it, on a processor; a test that changes it has its own."""
    from capbench.adapters.encoders.open_clip import OpenClipEncoder

    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


@pytest.fixture(scope="session")
def dci(made_once: MadeOnce) -> Path:
    """A small DCI in the released layout, which tests read alone."""
    return made_once("dci", lambda folder: make_tiny_dci(folder / "dci")) / "dci"


def folder_fixture(name: str, make: Callable[[Path], object]) -> Any:
    """Return a fixture that gives a folder which is made once a session."""

    @pytest.fixture(scope="session", name=name)
    def folder(made_once: MadeOnce) -> Path:
        return made_once(name, make)

    return folder


tiny_siglip = folder_fixture("tiny_siglip", make_tiny_siglip)
"""A folder with a tiny SigLIP."""
tiny_siglip2 = folder_fixture("tiny_siglip2", make_tiny_siglip2)
"""A folder with a tiny SigLIP 2."""
tiny_llava = folder_fixture("tiny_llava", tiny_lvlm.make_tiny_llava)
"""A folder with a tiny LLaVA."""
tiny_qwen2_vl = folder_fixture("tiny_qwen2_vl", tiny_lvlm.make_tiny_qwen2_vl)
"""A folder with a tiny Qwen2-VL."""
tiny_idefics = folder_fixture("tiny_idefics", tiny_lvlm.make_tiny_idefics)
"""A folder with a tiny IDEFICS."""
tiny_idefics3 = folder_fixture("tiny_idefics3", tiny_lvlm.make_tiny_idefics3)
"""A folder with a tiny Idefics 3."""
tiny_smolvlm = folder_fixture("tiny_smolvlm", tiny_lvlm.make_tiny_smolvlm)
"""A folder with a tiny SmolVLM2."""
tiny_internvl = folder_fixture("tiny_internvl", tiny_lvlm.make_tiny_internvl)
"""A folder with a tiny InternVL."""
tiny_llava_onevision = folder_fixture("tiny_llava_onevision", tiny_lvlm.make_tiny_llava_onevision)
"""A folder with a tiny LLaVA-OneVision."""
tiny_blip2 = folder_fixture("tiny_blip2", tiny_lvlm.make_tiny_blip2)
"""A folder with a tiny BLIP-2."""
tiny_spacy = folder_fixture("tiny_spacy", make_tiny_spacy)
"""A folder with a tiny pipeline of spaCy."""
tiny_vit_gpt2 = folder_fixture("tiny_vit_gpt2", tiny_lvlm.make_tiny_vit_gpt2)
"""A folder with a tiny ViT-GPT2."""
tiny_florence2 = folder_fixture("tiny_florence2", tiny_lvlm.make_tiny_florence2)
"""A folder with a tiny Florence-2."""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of mounts in the place of the system's."""
    monkeypatch.setattr("capbench.paths._MOUNTS", tmp_path / "mountinfo")
    return tmp_path / "mountinfo"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte, where root mounts it."""
    place = tmp_path / "disk"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def functions_may_run() -> Iterator[None]:
    """Let functions run that files name, as ``--run_functions`` does."""
    from capbench.permissions import Permissions, permit

    with permit(Permissions(functions=True)):
        yield

"""``bench doctor``: what this machine has and lacks, and how to fix it."""

import argparse
import importlib.metadata
import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..atomic_files import draft_beside
from ..benchmarks.records.environment import environment
from ..benchmarks.store.store import Store
from ..errors import BenchError
from ..metrics.capture import nltk_text, wordnet
from ..metrics.capture.factual import RELEASED as FACTUAL
from ..metrics.capture.parsers import RELEASED_ENCODER
from ..metrics.capture.spacy_parser import DEFAULT as SPACY_PIPELINE
from ..metrics.java import find_java
from ..metrics.meteor import resources as meteor_resources
from ..metrics.vectors.checkpoints import Checkpoint
from ..paths import cache_folder
from ..tasks.locate import DataLocations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--store", metavar="FILE", help="the store to look at")


def run(options: argparse.Namespace) -> int:
    """Print a line a finding, a fix under each fault; exit code 1 if there is a fault."""
    from ..benchmarks.store.store import parse_store

    findings = diagnose(parse_store(options.store).file)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"{finding.state:<6} {finding.subject:<{width}}  {finding.detail}")
        if finding.fix:
            fix = finding.fix.replace("\n", "\n" + " " * (width + 14))
            print(f"{'':6} {'':{width}}  fix: {fix}")
    return 1 if any(finding.state == "fault" for finding in findings) else 0


_LOW_DISK_BYTES = 5e9
_FACTUAL = "CAPTURE's parser 'factual'"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        state: ``ok``; ``note`` for what is missing and some tasks need; ``fault`` for what is broken.
        subject: What was checked.
        detail: What was found.
        fix: How to fix a fault.
    """

    state: Literal["ok", "note", "fault"]
    subject: str
    detail: str
    fix: str = ""


def diagnose(store: Path) -> list[Finding]:
    """Run all checks; nothing is changed but a probe file in the cache folder."""
    return [
        *_packages(),
        _checked("METEOR", meteor_resources.check, "its tables are installed", "fault"),
        *(_java(), _gpu()),
        _checked("WordNet", wordnet.find, "{} (CAPTURE's synonyms)", need=" CAPTURE's synonyms need them."),
        _checked("NLTK's models", nltk_text.check, f"found ({_FACTUAL})", need=f" {_FACTUAL} needs them."),
        _checkpoint("FACTUAL", Checkpoint(_FACTUAL, "parser_model", FACTUAL)),
        *_parser_spacy(),
        _checkpoint("text encoder", Checkpoint("CAPTURE's likeness of meaning", "encoder", RELEASED_ENCODER)),
        *(*_folders(store), _data()),
    ]


def _packages() -> Iterator[Finding]:
    setup = environment()
    libraries = ", ".join(f"{name} {version}" for name, version in setup["libraries"].items())
    yield Finding("ok", "capbench", f"{setup['capbench']} on Python {setup['python']}, {setup['cpus']} cores")
    yield Finding("ok", "libraries", libraries)
    # A wheel of torch that does not fit torchvision imports, and fails only when a model is loaded.
    if importlib.util.find_spec("torch") and importlib.util.find_spec("torchvision"):
        try:
            import torchvision  # noqa: F401
        except (ImportError, RuntimeError) as error:
            is_cpu = "+cpu" in importlib.metadata.version("torch")
            index = " --index-url https://download.pytorch.org/whl/cpu" if is_cpu else ""
            fix = f"pip install --force-reinstall torch torchvision{index}   (text metrics need neither)"
            yield Finding("fault", "torchvision", str(error).splitlines()[0], fix)


def _java() -> Finding:
    try:
        java = find_java()
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
        # Java prints the options of its environment first.
        version, *_ = (line for line in asked.stderr.splitlines() if " version " in line)
        return Finding("ok", "Java", f"{java}: {version}")
    except BenchError as error:
        needed = "Only METEOR's jar and SPICE need Java."
        return Finding("note", "Java", f"{error.message} {needed}", error.hint)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Finding("fault", "Java", f"Java does not run: {error}", "Reinstall Java, or point JAVA_HOME at one.")


def _checked(
    subject: str, check: Callable[[], object], text: str, lacking: Literal["note", "fault"] = "note", need: str = ""
) -> Finding:
    """Return the result of a check, in place of ``{}``, or its error with ``need``."""
    try:
        return Finding("ok", subject, text.format(check()))
    except BenchError as error:
        return Finding(lacking, subject, f"{error.message}{need}", error.hint)


def _parser_spacy() -> Iterator[Finding]:
    name = "CAPTURE's parser 'spacy'"
    packages = {"spacy": "pip install 'capbench[spacy]'", SPACY_PIPELINE: f"python -m spacy download {SPACY_PIPELINE}"}
    for subject, (package, fix) in zip(("spaCy", "spaCy's English"), packages.items(), strict=True):
        if importlib.util.find_spec(package) is None:
            yield Finding("note", subject, f"{package} is not installed; {name} needs it", fix)
        else:
            yield Finding("ok", subject, f"{package} {importlib.metadata.version(package)} ({name})")


def _checkpoint(subject: str, checkpoint: Checkpoint) -> Finding:
    if checkpoint.is_here():
        return Finding("ok", subject, f"{checkpoint.name} ({checkpoint.role})")
    missing = f"{checkpoint.name} is not in the hub's cache; {checkpoint.role} needs it, and fetches it on first use"
    return Finding("note", subject, missing, "bench fetch capture   (the hub tells the size before)")


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("fault", "GPU", "torch is not installed", "pip install torch torchvision")
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a library of it that does not load may raise anything
        mends = "pip install --force-reinstall torch torchvision"
        return Finding("fault", "GPU", f"torch cannot be imported: {error}", mends)
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return Finding("ok", "GPU", names)
    return Finding("note", "GPU", f"torch {torch.__version__} finds no GPU; text metrics run without one")


def _folders(store: Path) -> Iterator[Finding]:
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        probe = draft_beside(cache / "probe")
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        fix = "Set BENCH_CACHE to a folder that you may write to."
        yield Finding("fault", "cache", f"{cache} cannot be written: {error.strerror}", fix)
        return
    free = shutil.disk_usage(cache).free
    state = "ok" if free > _LOW_DISK_BYTES else "note"
    yield Finding(state, "cache", f"{cache}, {free / 1e9:.1f} GB free")
    if not store.is_file():
        yield Finding("note", "store", f"{store} does not exist yet; the first run creates it")
        return
    try:
        with Store(store, replace_damaged=False) as opened:
            damage = opened.verify()
    except BenchError as error:
        yield Finding("fault", "store", error.message, error.hint)
        return
    if damage:
        fix = f"Delete {store}; runs compute its results again."
        yield Finding("fault", "store", f"{store}: {damage[0]} ({len(damage)} faults)", fix)
    else:
        yield Finding("ok", "store", f"{store}, {store.stat().st_size / 1e6:.1f} MB, sound")


def _data() -> Finding:
    root = DataLocations.from_environment().root
    if root is None:
        return Finding("note", "data", "CAPBENCH_DATA is not set; tasks look in the cache and on the hub")
    if not root.is_dir():
        fix = "Set CAPBENCH_DATA to the folder that holds the data sets; 'bench fetch TASK' makes it."
        return Finding("fault", "data", f"CAPBENCH_DATA={root} is not a folder", fix)
    sets = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
    return Finding("ok", "data", f"CAPBENCH_DATA={root}: {', '.join(sets) or 'empty'}")

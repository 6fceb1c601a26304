"""What answers at once imports nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ["torch", "transformers", "datasets", "evaluate", "pandas", "scipy"]
_MAIN = """
from capbench.cli.main import main
try:
    main({arguments})
except SystemExit:
    pass
"""


def imported(code: str) -> set[str]:
    """Return the packages that a fresh interpreter has imported after running some code."""
    report = "\nimport sys; print('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.rpartition("MODULES")[2].split()}


def test_help_and_lists_import_nothing_heavy():
    called = ("run --help", "compare --help", "leaderboard build --help", "ls tasks", "ls models", "ls tags")
    assert imported("".join(_MAIN.format(arguments=words.split()) for words in called)).isdisjoint(HEAVY)


def test_capbench_and_its_help_do_not_even_import_numpy_or_yaml():
    code = "import capbench" + "".join(_MAIN.format(arguments=[word]) for word in ("--help", "--version"))
    assert imported(code).isdisjoint(["numpy", "yaml", "pydantic", *HEAVY])


def test_list_of_suites_imports_no_model_library_for_models_that_are_not_here(tmp_path, monkeypatch):
    for name in ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    # Without data and images nothing is asked of models.
    for folder in ("flickr8k/images", "dci"):
        Path(os.environ["BENCH_CACHE"], "data", folder).mkdir(parents=True)
    assert imported(_MAIN.format(arguments=["ls", "suites"])).isdisjoint([*HEAVY, "open_clip"])


def test_run_of_a_text_metric_imports_no_model_library(tmp_path: Path):
    arguments = ["run", "--task", "iiw_400", "--model", "iiw-p5b", "--metrics", "length", "--bootstrap", "10"]
    arguments += ["--output_path", str(tmp_path / "runs")]
    assert imported(_MAIN.format(arguments=arguments)).isdisjoint(["torch", "transformers", "datasets", "scipy"])

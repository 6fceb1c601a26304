"""Processes of Python that need not import torch, pandas and scipy: each is forked of one that has.

What reads the environment when it is imported, as the hub's library and transformers do, each imports for itself.
With ``SHORT_WAITS`` in its environment, a process that waits before it tries again does so for a twentieth of the time.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_PARENT = """
import functools, gc, importlib.metadata, json, os, runpy, sys, time
import pandas, pyarrow.dataset, pyarrow.parquet, scipy.stats, torch._dynamo, torchvision
# transformers and others ask which package is of which distribution: half a second, and always the same.
importlib.metadata.packages_distributions = functools.cache(importlib.metadata.packages_distributions)
importlib.metadata.packages_distributions()
gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    if not (process := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
else:
    sys.exit()
os.environ.clear()
os.environ.update(asked["environment"])
sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
if "SHORT_WAITS" in os.environ:
    time.sleep = lambda seconds, sleep=time.sleep: sleep(seconds / 20)
os.chdir(asked["folder"])
for number, file in enumerate(asked["files"]):
    os.dup2(os.open(file, os.O_RDWR), number)
sys.stdin = open(0, closefd=False)
what, *sys.argv[1:] = asked["words"]
if what == "-m":
    del sys.argv[1]
    runpy.run_module(asked["words"][1], run_name="__main__", alter_sys=True)
else:
    sys.argv[0] = what
    sys.path.insert(0, os.path.dirname(what))
    runpy.run_path(what, run_name="__main__")
"""


@cache
def _parent() -> subprocess.Popen[str]:
    """Start what all are forked of; it ends with this process."""
    return subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )


def run_python(
    *words: str | Path, folder: Path, environment: Mapping[str, str], said: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a script, or ``-m`` and a module, with arguments, in a folder and an environment; it reads what is said."""
    parent = _parent()
    assert parent.stdin is not None and parent.stdout is not None
    with TemporaryDirectory() as place:
        files = [Path(place, name) for name in ("in", "out", "err")]
        for file in files:
            file.write_text(said if file.name == "in" else "")
        asked = {"words": words, "folder": folder, "environment": dict(environment), "files": files}
        print(json.dumps(asked, default=str), file=parent.stdin, flush=True)
        try:
            code = int(parent.stdout.readline())
        except BaseException:
            # Whatever it waits for, the next test has one of its own.
            os.killpg(parent.pid, signal.SIGKILL)
            _parent.cache_clear()
            raise
        return subprocess.CompletedProcess(words, code, files[1].read_text(), files[2].read_text())

"""Two processes that do something at the same moment, many times."""

import json
import subprocess
import sys
from typing import Any

_SCRIPT = """
import json, multiprocessing, os, sys

work, arguments = sys.argv[1], sys.argv[2:]
both = multiprocessing.get_context("fork").Barrier(2)
out = os.pipe()
for who in range(2):
    if os.fork() == 0:
        names = {"who": who, "wait": lambda: both.wait(60), "arguments": arguments, "results": []}
        exec(work, names)
        os.write(out[1], (json.dumps(names["results"]) + chr(10)).encode())
        os._exit(0)
for _ in range(2):
    assert os.wait()[1] == 0
os.close(out[1])
print(os.fdopen(out[0]).read())
"""


def in_two_processes(work: str, *arguments: str) -> list[list[Any]]:
    """Run Python code in two processes, and return the list ``results`` of each.

    Args:
        work: It has the names ``who`` (0 or 1), ``wait()`` (until the other waits, too), ``arguments`` and ``results``.
        arguments: What both are given.
    """
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, work, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line]

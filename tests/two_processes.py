"""Two processes that do something at the same moment, many times."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

from capbench.benchmarks.store.objects.opening import open_objects

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

_PUT = """
import hashlib
from capbench.benchmarks.store.objects.opening import open_objects

url, rounds = arguments
objects = open_objects(url)
for number in range(int(rounds)):
    key = hashlib.sha256(str(number).encode()).hexdigest()
    wait()
    if objects.put(key, bytes([who]) * 5000):
        results.append([who, number])
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


def put_at_the_same_time(url: str, rounds: int) -> None:
    """Let two processes put; exactly one is told True in each round, and what is there is its content."""
    first = [row for results in in_two_processes(_PUT, url, str(rounds)) for row in results]
    assert sorted(number for _, number in first) == list(range(rounds))
    objects = open_objects(url)
    for who, number in first:
        key = hashlib.sha256(str(number).encode()).hexdigest()
        assert objects.get(key) == bytes([who]) * 5000

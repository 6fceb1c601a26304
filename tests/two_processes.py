"""Two processes that put one key at the same moment, many times."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

from capbench.benchmarks.store.objects.opening import open_objects

_SCRIPT = """
import hashlib, json, multiprocessing, os, sys
from capbench.benchmarks.store.objects.opening import open_objects

url, rounds = sys.argv[1], int(sys.argv[2])
both_are_there = multiprocessing.get_context("fork").Barrier(2)
out = os.pipe()
for who in range(2):
    if os.fork() == 0:
        objects, first = open_objects(url), []
        for number in range(rounds):
            key = hashlib.sha256(str(number).encode()).hexdigest()
            both_are_there.wait()
            if objects.put(key, bytes([who]) * 5000):
                first.append(number)
        os.write(out[1], (json.dumps([who, first]) + chr(10)).encode())
        os._exit(0)
for _ in range(2):
    assert os.wait()[1] == 0
os.close(out[1])
print(os.fdopen(out[0]).read())
"""


def put_at_the_same_time(url: str, rounds: int) -> None:
    """Let two processes put; exactly one is told True in each round, and what is there is its content."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, url, str(rounds)], capture_output=True, text=True, check=True
    )
    firsts = dict(json.loads(line) for line in done.stdout.split("\n") if line)
    assert sorted(firsts[0] + firsts[1]) == list(range(rounds))
    objects = open_objects(url)
    for who, rounds_won in firsts.items():
        for number in rounds_won:
            key = hashlib.sha256(str(number).encode()).hexdigest()
            assert objects.get(key) == bytes([who]) * 5000

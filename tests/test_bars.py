"""Progress bars on a terminal."""

import io
import threading

import pytest
import tqdm

import capbench
from capbench.progress import Reporter, bars, unheard


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    # Not a fixture: pytest puts its own stderr in place when the test itself begins.
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def shown_of(terminal: io.StringIO) -> list[str]:
    """Return what the line showed, one after the other."""
    texts = [text.strip() for text in terminal.getvalue().split("\r")]
    terminal.seek(0)
    terminal.truncate()
    return [f"{text.split(':')[0]} {text.split('| ')[1].split(' ')[0]}" if "| " in text else "" for text in texts]


def test_bar_starts_no_thread(monkeypatch: pytest.MonkeyPatch):
    terminal_of(monkeypatch)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 10)
    monkeypatch.setattr(tqdm.tqdm, "monitor", None)
    before = threading.active_count()
    report = bars()("step")
    assert threading.active_count() == before
    report(1, 2)
    report(2, 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is, for steps and bars."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_bar_waits_until_its_step_takes_long_and_then_no_more(monkeypatch: pytest.MonkeyPatch, clock: list[float]):
    terminal, start = terminal_of(monkeypatch), bars()
    units, other = start("units"), start("other")
    clock[0] += 1
    units(1, 4)
    assert shown_of(terminal) == [""]
    clock[0] += 1.5
    units(2, 4)
    assert shown_of(terminal)[-1] == "units 2/4"
    other(1, 6)
    clock[0] += 0.2
    other(2, 6)
    assert shown_of(terminal)[-1] == "other 2/6"


# -- Steps say which of how many they are


def test_run_of_tasks_tells_which_task_and_which_step():
    steps: list[str] = []

    def progress(step: str) -> Reporter:
        steps.append(step)
        return unheard

    settings = {"metrics": ["length", "bleu_1"], "limit": 20, "progress": progress}
    capbench.evaluate(tasks=["shapes_expert", "shapes_foil"], resamples=20, **settings)
    assert list(dict.fromkeys(steps)) == [
        "task 1 of 2, step 1 of 3: length",
        "task 1 of 2, step 2 of 3: bleu_1",
        "task 1 of 2, step 3 of 3: intervals",
        "task 2 of 2, step 1 of 2: length",
        "task 2 of 2, step 2 of 2: bleu_1",
    ]
    steps.clear()
    capbench.evaluate("iiw-p5b", ["iiw_400"], resamples=0, **settings)
    assert list(dict.fromkeys(steps)) == ["step 1 of 3: captions", "step 2 of 3: length", "step 3 of 3: bleu_1"]

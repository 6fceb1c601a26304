import sys
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import UsageError
from capbench.registry import Registry

GROUP = "capbench.no_such_group"


def registry(**builtin: str) -> Registry[Any]:
    return Registry("metric", builtin, GROUP)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str) -> None:
    """Put a distribution that declares entry points in front of the search path."""
    info = folder / "third_party_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_points}\n")
    monkeypatch.syspath_prepend(folder)


def test_taken_name_is_refused_and_keeps_its_object():
    known = registry(shipped="json:dumps")
    for _ in range(2):
        assert known.register("mine")(int) is int
    assert "mine" in known
    assert "other" not in known
    for name, message in (("mine", "'mine' is registered already, as <class 'int'>"), ("shipped", "'json:dumps'")):
        with pytest.raises(UsageError, match=message):
            known.add(name, float)
    assert known["mine"] is int
    assert known["shipped"].__name__ == "dumps"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "AttributeError: module 'broken_metric_module' has no attribute 'Mine'"),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("class Mine(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_module_that_cannot_be_loaded_is_an_error_that_says_which_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
):
    (tmp_path / "broken_metric_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("broken_metric_module", None)
    known = registry(mine="broken_metric_module:Mine")
    with pytest.raises(UsageError) as caught:
        known["mine"]
    assert "metric 'mine' cannot be loaded from 'broken_metric_module:Mine'" in caught.value.message
    assert reason in caught.value.message
    sys.modules.pop("broken_metric_module", None)


def test_error_of_ours_in_a_module_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "clashing_metric_module.py").write_text(
        "from capbench.metrics import metrics\nmetrics.add('cider', int)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="metric 'cider' is registered already"):
        registry(mine="clashing_metric_module:Mine")["mine"]


def test_entry_points_are_known_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(tmp_path, monkeypatch, "theirs = json:dumps")
    known = registry(ours="json:loads")
    assert list(known) == ["ours", "theirs"]
    assert known["theirs"].__name__ == "dumps"


def test_entry_point_with_a_shipped_name_is_an_error_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(tmp_path, monkeypatch, "ours = json:dumps")
    known = registry(ours="json:loads", other="json:load")
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            known["other"]
        assert caught.value.message == ("metric 'ours' of third-party-metrics is registered already, as 'json:loads'.")


def test_name_of_an_entry_point_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(tmp_path, monkeypatch, "theirs = json:dumps")
    with pytest.raises(UsageError, match="'theirs' is registered already"):
        registry().add("theirs", int)

"""Pauses double up to a longest one, are shortened by chance, and end."""

from __future__ import annotations

import pytest

from capbench.benchmarks.store.objects.patience import Patience


def test_pauses_double_up_to_the_longest_and_are_shortened_by_half_at_most():
    longest = [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    for _ in range(50):
        pauses = list(Patience(attempts=7, first_pause=1.0, longest_pause=10.0).pauses())
        assert len(pauses) == 6
        assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))


def test_workers_do_not_come_at_once():
    assert len({next(Patience().pauses()) for _ in range(20)}) > 10


def test_patience_lasts_about_a_minute():
    pauses = [list(Patience().pauses()) for _ in range(100)]
    # 0.25 + 0.5 + 1 + 2 + 4 + 8 + 16 + 20 + 20, three quarters of it on average.
    assert sum(map(sum, pauses)) / 100 == pytest.approx(0.75 * 71.75, abs=3)

"""Plans of metrics: which may look at images."""

from __future__ import annotations

from capbench.benchmarks.running.planned_metrics import look_at_images


def test_metrics_that_need_images_and_unknown_ones_may_look_at_images():
    assert look_at_images(["cider", "clip_s[w=1]"])
    assert look_at_images(["nothing_of_this_name"])
    assert not look_at_images(["cider", "bleu_4"])

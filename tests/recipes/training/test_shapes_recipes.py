"""The recipes of the shapes world, cut short: from the start model that ships, a few steps of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from replication import CHECKS, POSITIVES, REWARD_CHECKS, VARIANTS, checked, reward_variants, table

from capbench.adapters.shapes.painter import described_scene
from capbench.recipes.shapes.rows import painted
from capbench.recipes.training.schema import load_recipe
from capbench.tasks.shapes.describing import name, short_references
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly


def test_checks_name_variants_and_what_is_missing():
    tuned = reward_variants(Path("captioner_xe"))
    of_rewards = REWARD_CHECKS, tuned
    for checks, variants in (((*CHECKS, *POSITIVES), VARIANTS), of_rewards):
        assert {name for _, *names in checks for name in names} <= {"start", *variants}
        for variant, (recipe, changes) in variants.items():
            assert load_recipe(recipe, changes).recipe.data.reader is not None, variant
    figure = "shapes_dci_all_neg accuracy"
    clear = {"start": {figure: [0.5]}, "sdci_pick1": {figure: [0.7, 0.72]}}
    within = {"start": {figure: [0.5]}, "sdci_pick1": {figure: [0.45, 0.65]}}
    # Student's t of one degree of freedom is 12.706 at 0.975; the gains are 20 and 22.
    assert checked(clear, CHECKS) == [[figure, "sdci_pick1", "start", "+21.0 [+8.3, +33.7]", "shown"]]
    ((*check, _, verdict),) = checked(within, CHECKS)
    assert [*check, verdict] == [figure, "sdci_pick1", "start", "missing"]
    once = {"sdci_pick1": {figure: [0.7]}, "sdci_pick1_nl0": {figure: [0.5]}}
    assert checked(once, CHECKS) == [[figure, "sdci_pick1", "sdci_pick1_nl0", "+20.0", "shown"]]
    assert table(clear).splitlines()[-1] == "| sdci_pick1 | 71.0 ± 1.4 |"
    assert table(clear).splitlines()[-2] == "| start | 50.0 |"


def test_rewards_are_held_against_each_other_in_a_table_of_their_own():
    clip_s, length = "shapes_captions clip_s", "shapes_captions length"
    values = {
        "start": {"shapes_dci_all_neg accuracy": [0.5], clip_s: [1.5], length: [12.0]},
        "sdci_pick1": {"shapes_dci_all_neg accuracy": [0.7]},
        "scst_cider": {clip_s: [1.6, 1.7], length: [14.0, 15.0]},
        "scst_clip_s": {clip_s: [1.65, 1.75], length: [16.0, 16.0]},
    }
    missing = [row[:3] for row in checked(values, REWARD_CHECKS) if row[-1] == "missing"]
    assert missing == [[clip_s, "scst_clip_s", "scst_cider"]]
    encoders, captioners = table(values).split("\n\n")
    assert encoders.splitlines()[2:] == ["| start | 50.0 |", "| sdci_pick1 | 70.0 |"]
    assert captioners.splitlines()[2:] == [
        "| start | 150.0 | 12.0 |", "| scst_cider | 165.0 ± 7.1 | 14.5 ± 0.7 |",
        "| scst_clip_s | 170.0 ± 7.1 | 16.0 ± 0.0 |",
    ]  # fmt: skip


def test_paintings_show_what_their_captions_say_and_further_captions_tell_all_things():
    for row in painted(12):
        scene = sample_scene(int(row["id"]))
        (caption,), (painting,) = row["captions"], row["further_images"]
        assert caption in short_references(scene)
        assert painting.read_bytes() != row["image"].read_bytes()
        assert painting.scene == described_scene(caption, scene.seed + 500_000_000)
        names = [name(thing, "") for thing in scene.things]
        for text in row["further_captions"]:
            assert all(name in text for name in names)
        assert len(set(row["further_captions"])) > 1

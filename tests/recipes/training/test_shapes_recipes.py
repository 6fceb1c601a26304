"""The recipes of the shapes world, cut short: from the start model that ships, a few steps of each kind."""

from pathlib import Path

import pytest
from replication import CHECKS, POSITIVES, REWARD_CHECKS, VARIANTS, reward_variants

from capbench.adapters.shapes.painter import described_scene
from capbench.recipes.shapes.rows import painted
from capbench.recipes.training.schema import load_recipe
from capbench.tasks.shapes.describing import name, short_references
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly


def test_checks_compare_variants_whose_recipes_load():
    for checks, variants in (((*CHECKS, *POSITIVES), VARIANTS), (REWARD_CHECKS, reward_variants(Path("captioner_xe")))):
        assert {name for _, *names in checks for name in names} <= {"start", *variants}
        for variant, (recipe, changes) in variants.items():
            assert load_recipe(recipe, changes).recipe.data.reader is not None, variant


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

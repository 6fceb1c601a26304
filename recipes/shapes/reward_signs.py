"""Tunes the captioner of the shapes world by rewards with several seeds, and looks whether they show what PAC-S++'s do.

``python -m capbench.recipes.shapes.reward_signs --out FOLDER``

What is finished in FOLDER is not done again. Exit code 1 where a sign is missing.
"""

from __future__ import annotations

import sys

from .signs import Sign, Variants, measured, options_of, report

VARIANTS: Variants = {
    f"scst_{one}": (f"shapes_scst_{one}", ("probe=null",))
    for one in ("cider", "clip_s", "pacspp", "refpacspp")
}
"""The card of each has what its metrics notice; here that is left out."""
_CIDER, _CLIP_S, _PAC_S = (f"shapes_captions {name}" for name in ("cider", "clip_s", "pac_s"))
SIGNS = (
    Sign(_CIDER, "scst_cider", "start"),
    Sign(_CLIP_S, "scst_clip_s", "start"),
    Sign(_CLIP_S, "scst_clip_s", "scst_cider"),
    Sign(_PAC_S, "scst_pacspp", "start"),
    Sign(_PAC_S, "scst_pacspp", "scst_cider"),
)
"""PAC-S++, Table 9: each reward raises its own metric; CLIP-S and PAC-S, whose models are nearly one, against CIDEr."""


def main() -> int:
    """Train, print the tables, and return 1 where a sign is missing."""
    options = options_of("Look whether rewards show what those of PAC-S++ do.", list(VARIANTS))
    variants = {name: VARIANTS[name] for name in options.variants}
    return report(measured(options.out, range(options.seeds), variants), SIGNS)


if __name__ == "__main__":
    sys.exit(main())

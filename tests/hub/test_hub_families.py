"""One alias of each kind of repository from a hub, as it is typed, into an empty cache."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hub_server import served_hub
from tiny_clip import make_tiny_siglip, make_tiny_siglip2
from tiny_families import CAPTIONERS, ENCODERS, make_encoder, make_metaclip2
from warm_python import run_python

from capbench.adapters.aliases import list_aliases

pytestmark = pytest.mark.costly

MadeOnce = Callable[[str, Callable[[Path], object]], Path]
MAKE: dict[str, Callable[[Path], object]] = {
    **CAPTIONERS,
    **{alias: partial(make_encoder, alias) for alias in ENCODERS},
    "siglip2-base-patch16-224": make_tiny_siglip,
    "siglip2-base-patch16-naflex": make_tiny_siglip2,
    "metaclip-2-worldwide-huge-quickgelu": make_metaclip2,
}
"""Alias to what makes its tiny model in a folder."""


def command(alias: str) -> list[str]:
    if alias in CAPTIONERS:
        asked = ["shapes_captions", "--metrics", "cider", "--gen_kwargs", "max_new_tokens=16", "--limit", "4"]
    else:
        asked = ["shapes_dci_per_image_scm", "--limit", "1"]
    return ["run", "--model", alias, "--task", *asked, "--output_path", f"runs/{alias}"]


def test_families_run_from_the_hub(tmp_path: Path, made_once: MadeOnce, subtests: pytest.Subtests):
    """A process for all, as transformers takes long to import."""
    places = {alias: made_once(f"family_{alias}", make) for alias, make in MAKE.items()}
    # Those whose repositories have files of the same names are one to a hub.
    one_of_each = {frozenset(file.relative_to(at) for file in at.rglob("*")): alias for alias, at in places.items()}
    aliases = list(one_of_each.values())
    with served_hub(tmp_path / "on_the_hub") as hub:
        architectures: list[str] = []
        for alias in aliases:
            spec = list_aliases()[alias]
            place = places[alias]
            if alias in ENCODERS:
                config = json.loads((place / "open_clip_config.json").read_text())["model_cfg"]
                file = tmp_path / f"{spec.arguments['architecture']}.json"
                file.write_text(json.dumps(config))
                architectures.append(str(file))
                if tokenizer := config["text_cfg"].get("hf_tokenizer_name"):
                    hub.add(tokenizer, place)
            hub.add(spec.source, place, branch=spec.arguments.get("revision", "main"))
        asked = {"architectures": architectures, "calls": [command(alias) for alias in aliases]}
        environment = hub.environment(tmp_path / "home", BENCH_CACHE=str(tmp_path / "cache"))
        script = Path(__file__).with_name("several_calls.py")
        done = run_python(script, folder=tmp_path, environment=environment, said=json.dumps(asked))
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(aliases) == 8, done.stderr
    for alias, (code, out, err) in zip(aliases, results, strict=True):
        with subtests.test(alias):
            assert code == 0, out + err
            assert alias in out

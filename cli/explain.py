"""``bench explain``: how a metric came to the score of a caption.

It explains ALOHa, BERTScore, BLEU, CAPTURE, CHAIR, CIDEr, CLIP-F1 (with precision and recall), DCScore, METEOR,
ROUGE-L, SPICE (FACTUAL) and soft-SPICE.

examples:
  bench explain --candidate "A red car on a road." --reference "An automobile drives down the street."
  bench explain --task iiw_400 --model iiw-p5b --sample aar_test_04600 --html why.html
  bench explain --task iiw_400 --model iiw-p5b --sample aar_test_04600 --metric cider
  bench explain --metric 'capture[parser=spacy]' --candidate ... --reference ...
  bench explain --metric aloha --judge openai_judge --candidate ... --reference ...
  bench explain --metric 'dcscore[oracle=judge]' --judge openai_judge --image F --candidate ... --reference ...
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_files import write_whole
from ..errors import UsageError, writing
from .options import JUDGE, PERMISSIONS, TASK, add_options, refuse, task_settings

if TYPE_CHECKING:
    from ..benchmarks.inputs.models import Models
    from ..benchmarks.running.planned_metrics import PlannedMetric
    from ..benchmarks.store.store import Store
    from ..metrics import Items, Need, State


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--candidate", metavar="TEXT", help="a caption")
    parser.add_argument(
        "--reference", metavar="TEXT", action="append", default=[], help="a reference caption (may be repeated)"
    )
    parser.add_argument(
        "--image", metavar="FILE", type=Path, help="what the caption is of, where the metric looks at it"
    )
    parser.add_argument("--task", metavar="NAME", help="a task, in place of --candidate and --reference")
    parser.add_argument("--sample", metavar="ID", help="which of the task's captions")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="whose caption, where the task scores those of a model; or the encoder of the metric",
    )
    add_options(parser, "--model_args")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        default="capture",
        help="which metric (capture), as the task sets it if it does; with settings as capture[key=value,...]",
    )
    add_options(parser, *JUDGE)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page, in place of printing")
    add_options(parser, *TASK, *PERMISSIONS, "--store")


def run(options: argparse.Namespace) -> int:
    """Print the explanation, or write it as a page."""
    from ..benchmarks.explaining.explain import explain
    from ..benchmarks.explaining.explanations import as_html, as_text
    from ..benchmarks.store.store import Store, parse_store
    from ..metrics import Context
    from ..progress import bars

    direct = options.candidate is not None or bool(options.reference)
    html: Path | None = options.html
    either = "bench explain takes --candidate and --reference, or --task and --sample."
    refuse(
        (direct == (options.task is not None), either, "'bench explain --help' shows examples."),
        (direct and options.candidate is None, "--reference TEXT goes with --candidate TEXT"),
        (options.image and not direct, "--image goes with --candidate; --task provides the image"),
        (not direct and options.sample is None, "--task goes with --sample ID"),
        (html and not html.absolute().parent.is_dir(), f"--html {html}: its folder does not exist"),
    )
    with Store(parse_store(options.store).file) as store:
        planned, items, models, state = _direct(options) if direct else _of_task(options, store)
        context = Context(store, bars()(options.metric), models.encoder, models.judge)
        explained = explain(planned, items, context, state)
    if html:
        with writing(html):
            write_whole(html, as_html(explained, f"{options.task}, {options.sample}" if options.task else ""))
        print(f"written: {html}")
        return 0
    print(as_text(explained, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return 0


def _direct(options: argparse.Namespace) -> tuple[PlannedMetric, Items, Models, State | None]:
    import numpy as np

    from ..adapters import ImageHandle
    from ..benchmarks.explaining.explain import require_explainable
    from ..benchmarks.inputs.items import candidate_fault, references_fault
    from ..benchmarks.inputs.models import NamedModels, load_models, named_or_given
    from ..benchmarks.inputs.settings import read_metric
    from ..benchmarks.running.planned_metrics import OF_MODELS, plan_metric
    from ..metrics import Items

    judge = named_or_given(options.judge, options.judge_args)
    models = NamedModels.of(named_or_given(options.model, options.model_args), judge=judge)
    offers: set[Need] = {"references", "image", *(role for role in OF_MODELS if getattr(models, role) is not None)}
    planned = plan_metric(read_metric(options.metric), frozenset(offers))
    require_explainable(planned)
    image: Path | None = options.image
    needs, label = planned.metric.needs, planned.metric.label
    candidate, references = candidate_fault(options.candidate), references_fault(options.reference)
    refuse(
        (candidate, f"--candidate {candidate}"),
        ("references" in needs and not options.reference, "--candidate TEXT goes with --reference TEXT"),
        (options.reference and references, f"--reference: {references}"),
        ("image" in needs and image is None, f"{label} needs the image.", "Add --image FILE."),
        (image and "image" not in needs, f"{label} does not use images.", "Leave --image out."),
        (image and not image.is_file(), f"--image {image}: no such file"),
    )
    planned.require()
    named: dict[str, Any] = {"images": [ImageHandle(image)], "image_names": [image.name]} if image else {}
    items = Items(["candidate"], [options.candidate], [tuple(options.reference)], np.ones(1), **named)
    return planned, items, load_models(models, OF_MODELS), None


def _of_task(options: argparse.Namespace, store: Store) -> tuple[PlannedMetric, Items, Models, State | None]:
    from ..benchmarks.explaining.explain import find_sample, require_explainable
    from ..benchmarks.inputs.models import load_models
    from ..benchmarks.running.plan import resolve_call
    from ..progress import bars

    settings = task_settings(options, "model", "model_args", "judge", "judge_args")
    resolved = resolve_call([options.task], metric_names=[options.metric], **settings)
    plan = resolved.plan
    if len(plan) != 1:
        raise UsageError(f"--task {options.task} is {len(plan)} tasks; name one of them")
    # As the task sets it, where it lists a metric of that name.
    require_explainable(plan[0].metrics[0])
    models = load_models(resolved.models)
    sample = find_sample(plan[0], options.sample, models, locations=resolved.locations, store=store, progress=bars())
    return plan[0].metrics[0], sample[0], models, sample[1]

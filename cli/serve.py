"""``bench serve``: scores and rewards for trainers on other machines.

POST /score takes JSON, {"completions": [TEXT, ...], "references": [[TEXT, ...], ...], "image": [...]} or
{"rows": [{"candidate": TEXT, ...}, ...]}, and gives rewards, values of metrics, and the reasons of rows without one.
An image is a data URI (data:image/png;base64,...), or a path below a folder of --allow_outside. Requests carry the
token of $CAPBENCH_TOKEN, or one that is printed: 'authorization: Bearer TOKEN'. In Python, with the same variable:
capbench.reward("http://HOST:PORT"). Ctrl-C ends it.

examples:
  bench serve --metrics meteor
  bench serve --metrics cider[document_frequencies=train.jsonl],length --weights 1,-0.01 --host 0.0.0.0 --port 8000
  bench serve --metrics clip_s --model openai-clip-vit-b-32

Needs packages: pip install 'capbench[view]'
"""

import argparse
import os
from pathlib import Path

from ..errors import UsageError
from .options import JUDGE, SERVER, add_options, names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_options(
        parser,
        "--metrics",
        required=True,
        help="separated by commas or spaces ('bench ls metrics'); NAME[key=value,...] gives settings",
    )
    parser.add_argument(
        "--weights", nargs="+", metavar="NUMBER", help="factor of each metric in the reward, in order (1)"
    )
    parser.add_argument("--model", metavar="NAME", help="what encodes images and texts, for metrics that need it")
    add_options(parser, "--model_args", *JUDGE, *SERVER, "--allow_outside", "--allow_server", "--trust_remote_code")
    add_options(parser, "--store")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from ..benchmarks.inputs.settings import split_metrics
    from ..benchmarks.interchange.as_reward import reward
    from ..benchmarks.interchange.remote_reward import TOKEN
    from ..benchmarks.tables.pages.serving import require_packages, serve

    require_packages("serve")
    metrics = split_metrics(options.metrics)
    weights = _weights(options.weights, len(metrics))
    same = ("model", "model_args", "judge", "judge_args", "store", "allow_outside", "allow_server", "trust_remote_code")
    scorer = reward(
        dict(zip(metrics, weights, strict=True)), on_error=None, **{name: getattr(options, name) for name in same}
    )
    from ..benchmarks.interchange.reward_server import application

    token = os.environ.get(TOKEN, "")

    def announce(address: str) -> None:
        place, _, own = address.partition("/?token=")
        print(f"Serving {scorer.__name__} at {place}", *([] if token else [f"{TOKEN}={own}"]), sep="\n", flush=True)

    serve(
        application(scorer, [Path(folder) for folder in options.allow_outside]),
        command="serve",
        holds="has captions scored and reads images of allowed folders",
        host=options.host,
        port=options.port,
        token=token,
        announce=announce,
    )
    return 0


def _weights(texts: list[str] | None, metrics: int) -> list[float]:
    """Return the factor of each metric.

    Raises:
        UsageError: One is no number, or there are more or fewer than metrics.
    """
    try:
        weights = [float(text) for text in names(texts)] or [1.0] * metrics
    except ValueError as error:
        raise UsageError(f"--weights: {error}") from error
    if len(weights) != metrics:
        raise UsageError(f"--weights: {len(weights)} numbers for {metrics} metrics")
    return weights

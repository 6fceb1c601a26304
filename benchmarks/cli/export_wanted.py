"""``bench export pairs`` and ``bench export prompts``: what a file of recorded scores, or answers, must hold."""

from __future__ import annotations

import argparse
import sys

from .options import names


def export(options: argparse.Namespace, fmt: str) -> int:
    """Write the rows, and say what has none.

    Args:
        options: Those of ``bench export``.
        fmt: ``pairs`` or ``prompts``.

    Returns:
        The exit code: 0.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a file cannot be read or written.
    """
    from ...progress import bars
    from ...tasks.locate import parse_data_options
    from ..inputs.failures import describe
    from ..inputs.metric_names import split_metrics
    from ..interchange.wanted import write_pairs, write_prompts

    call = {
        "metrics": split_metrics(options.metrics or []),
        "images": options.images,
        "model": options.model,
        "model_args": options.model_args,
        "include_path": options.include_path,
        "data": parse_data_options(options.data),
        "allow_outside": options.allow_outside,
        "progress": bars(),
    }
    if fmt == "prompts":
        call["answers"] = options.answers
    write = write_pairs if fmt == "pairs" else write_prompts
    wanted = write(options.output, names(options.tasks), **call)
    for failure in wanted.failures:
        print(f"left out: {describe(failure)}", file=sys.stderr)
    print(f"{wanted.rows:,} {fmt}: {options.output}")
    return 0

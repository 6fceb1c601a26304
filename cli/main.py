"""Entry point of ``bench``: finds the subcommand, reports errors, returns the exit code.

examples:
  bench run --model iiw-p5b --task iiw_400            a captioner's score, no download needed
  bench run --task flickr8k_expert --metrics cider    how far a metric agrees with experts
  bench run --model captions:mine.jsonl --task iiw_400
  bench ls tasks

'bench COMMAND --help' explains a command. Exit codes: 0 done, 1 something failed, 2 wrong usage.
"""

import argparse
import atexit
import gc
import importlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

# Only the chosen subcommand's module is imported, so that --help answers at once.
COMMANDS = {
    "run": "run tasks with a model: bench run --model iiw-p5b --task iiw_400",
    "compare": "test which metrics or models differ: bench compare runs/TASK/MODEL/TIME",
    "leaderboard": "make the leaderboard of finished runs, check it, compare two: bench leaderboard build --runs runs",
    "plot": "draw finished runs for a paper: bench plot agreement runs -o agreement.svg",
    "view": "look at finished runs and their samples in a browser: bench view runs",
    "rate": "have people rate captions in a browser: bench rate iiw_400 --captions a.jsonl b.jsonl --better",
    "score": "score captions in a file: bench score captions.jsonl --metrics cider,meteor",
    "serve": "score captions for trainers on other machines: bench serve --metrics meteor",
    "train": "train a model by a recipe, judged by tasks: bench train shapes_sdci_pick1 --output FOLDER",
    "make": "make captions, summaries or negatives by a recipe: bench make pacspp_positives --data DIR --output DIR",
    "loop": "make data and train on them in turn, by one recipe: bench loop shapes_loop --output DIR",
    "explain": "show how a metric came to a score: bench explain --candidate TEXT --reference TEXT",
    "export": "write results as CSV, LaTeX, Parquet or lm-eval's files, or inputs to be scored elsewhere: "
    "bench export csv runs -o r.csv",
    "import": "take captions from logs of lmms-eval, lm-eval, VLMEvalKit or COCO: bench import FILE -o c.jsonl",
    "ls": "list tasks, groups, tags, suites, metrics, statistics, protocols, models, adapters, trainers or stages",
    "show": "explain a task: data, protocol, metrics, published values; or a metric or model with its settings",
    "data": "show where a task's data comes from, what is expected, what was found",
    "fetch": "get what a task, metric or model needs, after saying what comes: bench fetch detailcaps llava-1.5",
    "validate": "check task files: syntax, keys, metrics, templates, readers, data",
    "doctor": "check this machine: Java, GPU, packages, caches, disk",
    "verify": "check that runs are intact, or that this machine reproduces released code: bench verify runs",
    "store": "manage the store: stats, prune, verify",
}


def program() -> NoReturn:
    """Run ``bench`` and exit with the code of ``main``.

    The last exit handler ends the process with ``os._exit``: Python's own teardown of imported modules takes a second
    or two once a model was loaded.
    """
    codes: list[int] = []
    atexit.register(lambda: os._exit(codes[0]) if codes else None)
    # Importing a library of models creates a million objects; collecting cycles would take as long as the import.
    gc.set_threshold(10_000)
    code = main()
    # If stdout is closed, Python reports it at exit.
    with suppress(OSError):
        sys.stdout.flush()
        codes.append(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``bench`` and return its exit code: 0 done, 1 something failed, 2 wrong usage, 3 jobs are to be submitted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="bench",
        description="capbench: one harness for caption evaluation.",
        epilog=epilog_of(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        return _unknown("bench", "unknown command", chosen, COMMANDS, f"Commands: {', '.join(COMMANDS)}.")
    command, module = parser, None
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            sub.register("action", None, _Once)
            command, module = sub, importlib.import_module(f".{name}", __package__)
            sub.epilog = epilog_of(module.__doc__)
            module.add_arguments(sub)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        advice = _advice() if chosen == "run" else {}
        known, hint = re.findall(r"--\w+", command.format_help()), f"'{command.prog} --help' lists the options."
        # What follows an unknown option may be its value.
        for argument in [word for word in unknown if word.startswith("-")] or unknown[:1]:
            name = argument.partition("=")[0]
            near = [] if name in advice else known
            _unknown(command.prog, "unrecognized argument", name, near, advice.get(name, hint))
        return 2
    if options.version:
        from importlib.metadata import version

        print(f"capbench {version('capbench')}")
        return 0
    if module is None:
        parser.print_help()
        return 2
    return _guarded(module.run, options)


def epilog_of(docstring: str | None) -> str:
    """Return what the help of a command ends with: the docstring of its module, without the summary."""
    return (docstring or "").partition("\n\n")[2]


def _advice() -> dict[str, str]:
    from ..rows import load_yaml

    return load_yaml(Path(__file__).with_name("advice.yaml"))


class _Once(argparse.Action):
    """Stores the value of an option; of two values argparse itself keeps the second without a word."""

    is_given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if self.is_given and option:
            parser.error(f"{option} is given twice")
        self.is_given = True
        setattr(namespace, self.dest, values)


def _unknown(prog: str, problem: str, name: str, known: Iterable[str], hint: str) -> int:
    from ..errors import did_you_mean

    print(f"{prog}: error: {problem} '{name}'.{did_you_mean(name, known)}\n{hint}", file=sys.stderr)
    return 2


def _guarded(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    from ..errors import BenchError
    from ..permissions import permit
    from .options import permissions_of

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no τ must not cost the user the results.
        sys.stdout.reconfigure(errors="replace")
    try:
        with _ended_by_signals(), permit(permissions_of(options)):
            code = run(options)
        sys.stdout.flush()
        return code
    except BenchError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return error.exit_code
    except _Terminated:
        print("bench: terminated; what was finished is in the store", file=sys.stderr)
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        print("bench: interrupted; what was finished is in the store", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output (head, less) left; nothing is wrong.
        _drop_output()
        return 0
    except OSError as error:
        # A full disk, a file that may not be read: the message names it.
        print(f"bench: error: {error}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        return 1


class _Terminated(KeyboardInterrupt):
    """SIGTERM ended the process: it exits as by Ctrl-C, with its children."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    ways = {signal.SIGTERM: _Terminated, signal.SIGINT: KeyboardInterrupt}
    ended: list[int] = []

    def end(number: int, frame: object) -> None:
        ended.append(number)
        raise ways[signal.Signals(number)]

    # Only the main thread handles signals; handlers that a Python caller has set stay.
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = [number for number in usual if in_main_thread and signal.getsignal(number) == usual[number]]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    except BaseException as error:
        # A library that is interrupted (during its import, for example) may raise another error instead.
        if ended:
            raise ways[signal.Signals(ended[0])] from error
        raise
    finally:
        for number in ours:
            signal.signal(number, usual[number])


def _drop_output() -> None:
    """Redirect what Python flushes at exit to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    program()

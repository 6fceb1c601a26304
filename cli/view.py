"""``bench view``: look at finished runs in a browser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .options import SERVER, TASK, add_options, locations_of, serve_pages, tell

_EPILOG = """\
RUN is the folder of a finished run, as 'bench run' prints it, or a folder with runs below it. The address that is
printed holds a token, without which nothing is shown; open it in a browser, and end with Ctrl-C. New runs appear when
a page is reloaded. Images come from the run or from the folder of the task's data ($CAPBENCH_DATA, --data); nothing is
fetched from other machines.

examples:
  bench view runs
  bench view runs --port 8000          over 'ssh -L 8000:127.0.0.1:8000 MACHINE', from another one
  bench view runs --export pages       the same as files, to be sent or put on a web server

docs/view.md shows the pages. Needs packages: pip install 'capbench[view]'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="folder of a run, or of runs")
    add_options(parser, *SERVER)
    parser.add_argument("--export", metavar="DIR", type=Path, help="write the pages as files, in place of serving them")
    add_options(parser, *TASK, "--allow_outside")


def run(options: argparse.Namespace) -> int:
    """Serve the pages until interrupted, or write them."""
    # Models that explain a score are those that are here.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from ..benchmarks.records.reading import find_records
    from ..benchmarks.tables.pages.serving import require_packages

    require_packages("view")
    _, errors = find_records(options.runs)
    for error in errors:
        if len(errors) == len(options.runs) or not error.message.endswith("below it)"):
            raise error
        tell(f"bench view: {error}")
    from ..benchmarks.view.finding import Pictures, Runs
    from ..benchmarks.view.site import Site

    runs, pictures = Runs(options.runs), Pictures(locations_of(options), options.include_path)
    if options.export:
        from ..benchmarks.view.exporting import EXPORT_POLICY, export
        from ..progress import bars

        files, size = export(Site(runs, pictures), options.export, bars()("pages"))
        print(f"{files:,} files, {size / 1e6:,.1f} MB; open {options.export / 'index.html'}")
        return 0

    from ..benchmarks.view.app import application

    serve_pages(application(Site(runs, pictures)), options, "sees the runs and their images")
    return 0

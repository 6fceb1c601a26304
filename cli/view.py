"""``bench view``: look at finished runs in a browser.

RUN is the folder of a finished run, as 'bench run' prints it, or a folder with runs below it. The address that is
printed holds a token, without which nothing is shown; open it in a browser, and end with Ctrl-C. New runs appear when
a page is reloaded. Images come from the run or from the folder of the task's data ($CAPBENCH_DATA, --data); nothing is
fetched from other machines.

examples:
  bench view runs
  bench view runs --port 8000                            over 'ssh -L 8000:127.0.0.1:8000 MACHINE', from another one
  bench view RUN --worst 5 --metric cider                print the samples that CIDEr scores worst
  bench view RUN --export run.html --thumbnails          one file that needs no server

docs/view.md shows the pages. Needs packages: pip install 'capbench[view]'
"""

import argparse
import os
from pathlib import Path

from ..errors import UsageError
from .options import SERVER, TASK, add_options, locations_of, positive, serve_pages, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="folder of a run, or of runs")
    add_options(parser, *SERVER)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--worst", metavar="N", type=positive, help="print the N worst samples of one run")
    instead.add_argument("--export", metavar="FILE.html", type=Path, help="write one run as a file that loads nothing")
    parser.add_argument("--metric", metavar="NAME", default="", help="what --worst goes by (the first metric)")
    parser.add_argument("--thumbnails", action="store_true", help="with --export: put small images into the file")
    add_options(parser, *TASK, "--allow_outside")


def run(options: argparse.Namespace) -> int:
    """Serve the pages until interrupted, or write them."""
    # Models that explain a score are those that are here.
    os.environ["HF_HUB_OFFLINE"] = "1"
    # What a page has read goes back to the machine; Arrow's own pool keeps a tenth more.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from ..benchmarks.records.reading import find_records
    from ..benchmarks.tables.pages.serving import require_packages

    for option, needs in (("metric", "worst"), ("thumbnails", "export")):
        if getattr(options, option) and not getattr(options, needs):
            raise UsageError(f"--{option} goes with --{needs}", f"Add --{needs}, or leave --{option} out.")
    if not options.worst:
        require_packages("view")
    _, errors = find_records(options.runs)
    for error in errors:
        if len(errors) == len(options.runs) or not error.message.endswith("below it)"):
            raise error
        tell(f"bench view: {error}")
    from ..benchmarks.view.finding import Pictures, Runs

    runs = Runs(options.runs)
    if options.worst:
        from ..benchmarks.view.sample_list import worst_lines

        for line in worst_lines(runs, runs.single("--worst"), options.metric, options.worst):
            print(line)
        return 0
    from ..benchmarks.view.site import Site

    site = Site(runs, Pictures(locations_of(options), options.include_path))
    if options.export:
        from ..benchmarks.view.exporting import export
        from ..progress import bars

        run = runs.single("--export")
        size = export(site, run, options.export, thumbnails=options.thumbnails, progress=bars()("samples"))
        print(f"{options.export}: {size / 1e6:,.1f} MB; open it in a browser")
        return 0

    from ..benchmarks.view.app import application

    serve_pages(application(site), options, "sees the runs and their images")
    return 0

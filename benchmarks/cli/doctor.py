"""``bench doctor``: what this machine has, what it lacks, and how to mend it."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--store", metavar="FILE", help="the store to look at")


def run(options: argparse.Namespace) -> int:
    """Print a line a finding, a fix under each fault; exit code 1 if there is a fault."""
    from ..store.naming import parse_store
    from .diagnosis import diagnose

    findings = diagnose(parse_store(options.store).file)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"{finding.state:<6} {finding.subject:<{width}}  {finding.detail}")
        if finding.fix:
            fix = finding.fix.replace("\n", "\n" + " " * (width + 14))
            print(f"{'':6} {'':{width}}  fix: {fix}")
    return 1 if any(finding.state == "fault" for finding in findings) else 0

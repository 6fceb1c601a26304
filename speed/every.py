"""Run scripts of this folder one after the other, all of them, and name what missed its bar or failed at the end.

Run by hand; what a script prints is shown as it comes::

    python speed/every.py startup text_metrics
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def measure(script: Path) -> list[str]:
    """Run a script, show its lines, and return those that miss a bar; its name where it failed without one."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.strip())
    missed = [f"{script.stem}: {line}" for line in lines if "over the bar" in line]
    return missed or ([f"{script.stem}: failed"] if process.returncode else [])


def main() -> int:
    """Print what every script prints, then what was missed; exit code 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+", metavar="NAME", help="a script of this folder, without .py")
    missed = []
    for name in parser.parse_args().scripts:
        print(f"{name}:", flush=True)
        missed += measure(FOLDER / f"{name}.py")
        print(flush=True)
    for one in missed:
        print(f"missed: {one}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Calls ``bench`` several times in one process, to which torch is imported once; prints a line of JSON for each.

Asked by JSON on the standard input: the calls' arguments, and files of architectures that open_clip is to know.
"""

import io
import json
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

from capbench.cli.main import main

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    if asked["architectures"]:
        import open_clip

        for file in asked["architectures"]:
            open_clip.add_model_config(file)
    for arguments in asked["calls"]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(arguments)
            except Exception:  # noqa: BLE001 - the other calls follow
                code = 1
                traceback.print_exc()
        print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)

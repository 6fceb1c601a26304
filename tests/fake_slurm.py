"""A cluster of Slurm that is this machine: ``sbatch`` and what else submitit asks, as programs on PATH.

What befalls tasks is written in ``fate`` in the folder of the programs: lines of ``vanish N``, ``die N``, ``twice N``
for the task N of an array.
"""

import sys
from pathlib import Path

_PROGRAM = """#!{python}
import os, re, subprocess, sys
from pathlib import Path

here = Path({here!r})
name, words = Path(sys.argv[0]).name, sys.argv[1:]
if name == "sbatch":
    script = Path(words[0]).read_text()
    number = len(list(here.glob("job-*"))) + 1
    (here / f"job-{{number}}").write_text(script)
    fates = [line.split() for line in (here / "fate").read_text().splitlines()]
    found = re.search("--array=0-([0-9]+)", script)
    for task in range(int(found[1]) + 1) if found else [None]:
        fate = next((fate for fate, of in fates if int(of) == (task or 0)), "")
        job = str(number) if task is None else f"{{number}}_{{task}}"
        own = {{**os.environ, "SLURM_JOB_ID": str(number), "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}}
        if task is not None:
            own |= {{"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}}
        if fate == "vanish":
            continue
        (here / f"state-{{job}}").write_text("FAILED" if fate == "die" else "RUNNING")
        for _ in range({{"die": 0, "twice": 2}}.get(fate, 1)):
            with open(here / "log", "a") as log:
                subprocess.Popen(["bash", words[0]], env=own, stdout=log, stderr=log, start_new_session=True)
    print(f"Submitted batch job {{number}}")
elif name == "srun":
    os.execv({python!r}, [{python!r}, *words[words.index("-u"):]])
elif name == "sacct":
    print("JobID|State|NodeList")
    for file in here.glob("state-*"):
        print(f"{{file.name.removeprefix('state-')}}|{{file.read_text()}}|node")
elif name == "scancel":
    with open(here / "cancelled", "a") as log:
        log.write(" ".join(words) + chr(10))
"""


def fake_slurm(folder: Path) -> Path:
    """Write the programs into a folder, which is to be on PATH, and return it."""
    folder.mkdir()
    (folder / "fate").touch()
    for name in ("sbatch", "srun", "sacct", "scancel", "squeue", "scontrol"):
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, here=str(folder)))
        program.chmod(0o755)
    return folder

# ruff: noqa: E501 - a line an attack
"""A folder that a stranger wrote looks at nothing outside, calls nobody, sends nothing and runs nothing by itself.

Each kind of folder tries one thing at a time, and every command that takes it is carried out, dry and in earnest, under
an audit hook and beside a server that counts who comes. What options allow is tried in ``test_allowed.py``.
"""

import hashlib
import io
import json
import os
import pickle
import re
import shlex
import shutil
import site
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from counting_server import Listener
from faults.stranger_files import LOOP, PIPELINE, RECIPE, TASK
from finished_runs import checksum
from PIL import Image
from rated_session import make_session
from task_keys import CARD
from watched import ASKING, Event, watched

from capbench.adapters.aliases import ALIAS_FOLDER
from capbench.benchmarks.rate.session import RatingQueue, locked, read_session
from capbench.cli.main import main
from capbench.errors import BenchError
from capbench.permissions import PACKAGE_ROOT
from capbench.tasks.index import build_index

LINKS = {
    "link.png": "SECRET.png", "link.jsonl": "rows.jsonl", "link.yaml_": "other.yaml", "link.json": "rows.jsonl",
    "linked": "",
}  # fmt: skip
SECRET = "s3cr3t-of-this-machine"
ELSEWHERE = ["SECRET.png", "config.json", "model.yaml", "other.yaml", "rows.jsonl"]
ROW = {"id": "0", "image": "in.png", "references": ["a dog runs"], "captions": ["a dog"], "caption": "a dog"}
EVIL = """\
import pathlib
pathlib.Path({ran!r}).write_text("code ran")
def read(path=None, **_):
    yield {{"id": "0", "image": "in.png", "references": ["a dog"], "captions": ["a dog"]}}
def same(documents, *_, **__):
    return documents
class EvilConfig: pass
class EvilModel: pass
class EvilTokenizer: pass
"""


@dataclass
class World:
    """A desk that commands are typed at, a stranger's folder, and what lies elsewhere on the machine."""

    root: Path
    port: int
    desk: Path = field(init=False)
    stranger: Path = field(init=False)
    elsewhere: Path = field(init=False)
    printed: str = ""

    def __post_init__(self) -> None:
        for name in ("desk", "stranger", "elsewhere"):
            setattr(self, name, self.root / name)
            (self.root / name).mkdir(exist_ok=True)

    @property
    def ran(self) -> Path:
        return self.root / "ran"

    def tell(self, values: Any) -> None:
        """Make the links that what a stranger writes leads through."""
        for name, where in LINKS.items():
            if re.search(rf"{name}(?!\w)", str(values)):
                (self.stranger / name).unlink(missing_ok=True)
                (self.stranger / name).symlink_to(self.elsewhere / where)

    def fill(self, text: str) -> str:
        """Put places into what a stranger writes."""
        places = {
            "{elsewhere}": self.elsewhere, "{here}": self.stranger, "{package}": PACKAGE_ROOT,
            "{server}": f"http://127.0.0.1:{self.port}", "{host}": f"127.0.0.1:{self.port}",
        }  # fmt: skip
        for sign, place in places.items():
            text = text.replace(sign, str(place))
        return text

    def write(self, name: str, content: Any) -> Path:
        """Write a file of the stranger's."""
        path = self.stranger / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(self.fill(content if isinstance(content, str) else written(content)))
        return path


class Tagged(str):
    """``!function`` of YAML."""


yaml.SafeDumper.add_representer(Tagged, lambda dumper, tagged: dumper.represent_scalar("!function", str(tagged)))


class _Attacks(yaml.SafeLoader):
    """Reads attacks, some of which are ``!function``."""


_Attacks.add_constructor("!function", lambda loader, node: Tagged(node.value))
ATTACKS = yaml.load(Path(__file__).with_name("attacks.yaml").read_text(), _Attacks)  # noqa: S506 - a safe one
OF_TASKS, OF_MODELS, IMAGES = (ATTACKS[kind] for kind in ("tasks", "models", "images"))
ROWS_OF_SUITE, CLUSTERS, COMMANDS = (ATTACKS[kind] for kind in ("suites", "clusters", "commands"))


def written(values: Any) -> str:
    if isinstance(values, list):
        return "".join(f"{json.dumps(value)}\n" for value in values)
    return yaml.safe_dump(values, sort_keys=False)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def world(tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path, listener.port)
    Image.new("RGB", (16, 16), (200, 10, 10)).save(world.elsewhere / "SECRET.png")
    (world.elsewhere / "rows.jsonl").write_text(json.dumps({**ROW, "image": "SECRET.png", "caption": SECRET}) + "\n")
    (world.elsewhere / "other.yaml").write_text(yaml.safe_dump({**TASK, "description": SECRET}))
    (world.elsewhere / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": [SECRET]}))
    (world.elsewhere / "model.yaml").write_text(yaml.safe_dump({"adapter": "captions", "path": "./rows.jsonl"}))
    for place in (world.desk / "mine", world.stranger):
        place.mkdir(exist_ok=True)
        Image.new("RGB", (16, 16), (10, 200, 10)).save(place / "in.png")
        (place / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
        (place / "train.jsonl").write_text(json.dumps({"image": "in.png", "captions": ["a dog"]}) + "\n")
    for name, values in {"mine": {**TASK, "task": "mine"}, "pipeline": PIPELINE, "recipe": RECIPE}.items():
        (world.desk / f"mine/{name}.yaml").write_text(yaml.safe_dump(values))
    (world.stranger / "evil.py").write_text(EVIL.format(ran=str(world.ran)))
    (world.desk / "model").mkdir()
    (world.desk / "model/config.json").write_text(json.dumps({"model_type": "bert"}))
    monkeypatch.chdir(world.desk)
    monkeypatch.setenv("MY_SECRET_TOKEN", SECRET)
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "cache"))
    # Whoever says yes to all that is asked at the terminal has not allowed anything.
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 1000))
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    return world


def typed(world: World, command: str) -> int:
    """Carry a command out; how it ends is its own business."""
    words = shlex.split(world.fill(command))
    with suppress(SystemExit):
        return main(words)
    return 2


LIBRARIES = tuple(
    os.path.realpath(path)
    for path in (
        sys.prefix, sys.base_prefix, *site.getsitepackages(), PACKAGE_ROOT, "/proc", "/sys", "/dev", "/etc", "/usr",
        "/lib", "/opt", os.environ.get("HF_HOME") or Path.home() / ".cache", Path.home() / ".fonts",
        Path.home() / ".local/share/fonts", tempfile.gettempdir(),
    )
)  # fmt: skip


ASKED = (f"git -C {PACKAGE_ROOT} ", "/sbin/ldconfig -p", "fc-list ")
"""Which state of capbench it is, where libraries are, and which fonts there are."""


def strange(world: World, events: Sequence[Event]) -> list[Event]:
    """Return what a stranger's folder had done that nobody allowed."""
    root = os.path.realpath(world.root)
    mine = tuple(f"{root}/{folder}" for folder in ("desk", "cache"))
    its = f"{root}/stranger"

    def is_below(path: str, *folders: str) -> bool:
        return f"{path}{os.sep}".startswith(tuple(f"{folder}{os.sep}" for folder in folders))

    strangers: list[Event] = []
    for event in dict.fromkeys(events):
        if event.kind in ("read", "write"):
            inside = (
                is_below(event.target, *mine, its)
                if is_below(event.target, root)
                else is_below(event.target, *LIBRARIES)
            )
            # The models of the desk are nobody's but the user's.
            inside = inside and not is_below(event.target, f"{root}/desk/model")
            # To list the folder in which all lie is to look for what lies there.
            if not inside and event.target != root:
                strangers.append(event)
        elif event.kind in ("import", "compile", "exec"):
            if is_below(os.path.realpath(event.target), its) or "transformers_modules" in event.target:
                strangers.append(event)
        elif event.kind == "start" and event.target.startswith(ASKED):
            continue
        elif event.kind in (*ASKING, "start") or (
            event.kind == "unpickle" and event.target.startswith(("posix.", "os."))
        ):
            strangers.append(event)
    return strangers


def look(
    world: World, listener: Listener, commands: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> dict[str, int]:
    """Carry commands out, see that nothing was done that nobody allowed, and return how they ended."""
    came = listener.asked
    by_command: dict[str, list[Event]] = {}
    ended: dict[str, int] = {}
    for command in commands:
        with watched() as events:
            ended[command] = typed(world, command)
        if seen := strange(world, events):
            by_command[command] = seen
    assert by_command == {}
    assert not world.ran.exists(), world.ran.read_text()
    assert listener.asked == came
    world.printed = "".join(capsys.readouterr())
    assert SECRET not in world.printed
    kept = [path for path in world.desk.rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert sorted(path.name for path in world.elsewhere.iterdir()) == ELSEWHERE
    return ended


_SPELLED = re.compile("above|by a link|by links|through a link|after a space|by a pattern|by an address")


def dear(attacks: Iterable[str], *costly: str) -> list[Any]:
    """Return attacks; costly are other spellings of the path of another one, and those that import for seconds."""
    return [
        pytest.param(attack, marks=pytest.mark.costly if attack in costly or _SPELLED.search(attack) else ())
        for attack in attacks
    ]


def came_to_its_end(attack: str, ended: Mapping[str, int], but: tuple[str, ...] = ()) -> None:
    """See that commands on a folder that tries nothing do their work, so that the others end for what they try."""
    if attack == "nothing":
        assert {command: code for command, code in ended.items() if code and not command.startswith(but)} == {}


class Shell:
    """A pickle that runs a command."""

    def __init__(self, ran: Path) -> None:
        self._ran = str(ran)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self._ran}",)


# ------------------------------------------------------------------------------------------------ tasks

STRANGE_CARD = CARD | {"folder": "strange", "downloads": [{"url": "{server}/x", "file": "x"}]}


@pytest.mark.parametrize("attack", dear(OF_TASKS, "code: pickle of pandas"))
def test_task(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    world.write("strange.yaml", task_that_tries(attack))
    world.tell(OF_TASKS[attack])
    write_what_tasks_name(world)
    # Who reads no image need not look at one, either.
    looks = attack == "nothing" or "image" in str(OF_TASKS[attack])
    captioner = "" if looks else "--set models.captioner={name:\\ captions:mine/rows.jsonl}"
    ended = look(world, listener, [command.replace("{captioner}", captioner) for command in COMMANDS["task"]], capsys)
    came_to_its_end(attack, ended, but=("make ", "train "))


def test_all_tasks_together(world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    attacks = [attack for attack in OF_TASKS if attack != "code: pickle of pandas"]
    tasks: dict[str, str] = {}
    for number, attack in enumerate(attacks):
        values = {**task_that_tries(attack), "task": OF_TASKS[attack].get("task", f"t{number:02}")}
        tasks[values["task"]] = world.write(f"t{number:02}.yaml", values).name
    world.tell(list(LINKS))
    write_what_tasks_name(world)
    indexed = [name for name in build_index([world.stranger]).entries if name in tasks]
    words = {"{names}": " ".join(indexed), "{files}": " ".join(f"{{here}}/{file}" for file in tasks.values())}
    ended = []
    for command in COMMANDS["all_tasks"]:
        for sign, value in words.items():
            command = command.replace(sign, value)
        ended += look(world, listener, [command], capsys).values()
        # None keeps those after it from being looked at.
        looked_at = indexed if words["{names}"] in command else tasks
        assert [task for task in looked_at if task not in world.printed and tasks[task] not in world.printed] == []
    assert ended == [0, 1, 1]
    assert f"ok       t{attacks.index('nothing'):02}\n" in world.printed


def task_that_tries(attack: str) -> dict[str, Any]:
    return {key: value for key, value in {**TASK, **OF_TASKS[attack]}.items() if value is not None}


def write_what_tasks_name(world: World) -> None:
    world.write("card.yaml", STRANGE_CARD)
    world.write("references.json", json.dumps({"rows.txt": ["{server}/x"]}))
    world.write("script/script.py", EVIL.format(ran=str(world.ran)))
    world.write("evil.pkl", pickle.dumps(Shell(world.ran)))
    brings_code(world, "auto", "bert")


def brings_code(world: World, name: str, kind: str) -> None:
    """Write a checkpoint whose parts name a Python file beside them."""
    names = ("AutoConfig", "AutoModel", "AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoModelForCausalLM")
    mapped = dict.fromkeys(names, "modeling_evil.EvilModel")
    tokenizer = {
        "auto_map": {"AutoTokenizer": ["modeling_evil.EvilTokenizer", None]},
        "tokenizer_class": "EvilTokenizer",
    }
    world.write(f"{name}/config.json", json.dumps({"model_type": kind, "auto_map": mapped}))
    world.write(f"{name}/tokenizer_config.json", json.dumps(tokenizer))
    world.write(f"{name}/preprocessor_config.json", json.dumps({"auto_map": mapped}))
    world.write(f"{name}/modeling_evil.py", EVIL.format(ran=str(world.ran)))


# ----------------------------------------------------------------------------------------------- models

ROLES = {
    "openai_judge": "judge", "hf_judge": "judge", "responses": "judge", "open_clip": "encoder", "hf_clip": "encoder",
    "pac": "encoder", "pair_scores": "encoder", "sam": "segmenter", "grounding_dino": "detector", "diffusion": "painter",
}  # fmt: skip
"""Adapter to what it is; all others write captions."""


def make_checkpoint(world: World, name: str) -> None:
    """Write a checkpoint that tries one thing."""
    evil = EVIL.format(ran=str(world.ran))
    kinds = {"auto": "evil", "known": "llava", "clip": "clip", "paired": "vision-encoder-decoder"}
    ours = {
        "open_clip": "shapes-clip", "tower": "shapes-clip", "llava": "shapes-llava", "based": "shapes-llava",
        "template": "shapes-llava", "pickled": "shapes-llava", "megatron": "shapes-answers",
    }  # fmt: skip
    folder = world.stranger / name
    if name in kinds:
        brings_code(world, name, kinds[name])
    if name in ours:
        shutil.copytree(ALIAS_FOLDER / ours[name], folder)

    def change(file: str, **values: Any) -> None:
        there = folder / file
        known = json.loads(there.read_text()) if there.exists() else {}
        there.write_text(json.dumps(known | values))

    if name in ("open_clip", "tower"):
        configuration = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]
        trusting = {"hf_tokenizer_name": "x", "tokenizer_kwargs": {"trust_remote_code": True}}
        tower = {"hf_model_name": str(world.elsewhere), "hf_tokenizer_name": "x"}
        texts = configuration["text_cfg"] | trusting if name == "open_clip" else tower
        change("open_clip_config.json", model_cfg=configuration | {"text_cfg": texts})
        auto = {"AutoTokenizer": ["modeling_evil.EvilTokenizer", None]}
        change("tokenizer_config.json", auto_map=auto, tokenizer_class="EvilTokenizer")
        (folder / "modeling_evil.py").write_text(evil)
    elif name == "based":
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            shutil.copy(ALIAS_FOLDER / "shapes-answers" / file, folder)
        change("adapter_config.json", base_model_name_or_path=str(world.elsewhere))
    elif name == "template":
        code = f"cycler.__init__.__globals__.os.system('touch {world.ran}')"
        (folder / "chat_template.jinja").write_text("{{ " + code + " }}")
    elif name == "pickled":
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Shell(world.ran)))
    elif name == "megatron":
        change("adapter_config.json", megatron_config={"x": 1}, megatron_core="evil")
    elif name == "links":
        folder.mkdir()
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            (folder / file).symlink_to(world.elsewhere / "rows.jsonl")
    elif name == "pipeline":
        names = ("scheduler", "unet", "vae", "tokenizer", "text_encoder")
        parts = {part: ["evil", "EvilModel"] for part in names}
        known = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0"}
        world.write("pipeline/model_index.json", json.dumps({**known, **parts}))
        for part in parts:
            world.write(f"pipeline/{part}/config.json", "{}")
    elif name == "evil.bin":
        folder.write_bytes(pickle.dumps(Shell(world.ran)))


@pytest.mark.parametrize("attack", dear(OF_MODELS, "code: parts of a pipeline", "code: lm-eval"))
def test_model(
    attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # As where the program is started by 'python -m' in the stranger's folder.
    monkeypatch.syspath_prepend(str(world.stranger))
    values = OF_MODELS[attack]
    world.write("model.yaml", values)
    world.tell(values)
    for name in {str(value).rpartition("/")[2] for value in values.values()}:
        make_checkpoint(world, name)
    role = ROLES.get(values["adapter"], "captioner")
    metric = "pac_s" if values["adapter"] == "pac" else "clip_s"
    ended = look(world, listener, [command.replace("{metric}", metric) for command in COMMANDS["model"][role]], capsys)
    came_to_its_end(attack, ended, but=("train ", "loop "))


# ---------------------------------------------------------------------------------- pipelines, recipes, loops


def changed(values: Mapping[str, Any], keys: str, value: Any) -> dict[str, Any]:
    """Return values with another one at some keys."""
    copy = json.loads(json.dumps(values))
    *sections, key = keys.split(".")
    inner = copy
    for section in sections:
        inner = inner[int(section)] if isinstance(inner, list) else inner.setdefault(section, {})
    inner[key] = value
    return copy


def changed_files(kind: str, base: Mapping[str, Any], key: str, named: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return files of a kind by what they try: by a model that they name at a key, or otherwise."""
    files = {attack: changed(base, key, model) for attack, model in named.items()}
    for attack, changes in ATTACKS[kind].items():
        files[attack] = dict(base)
        for keys, value in changes.items():
            files[attack] = changed(files[attack], keys, value)
    return files


OF_PIPELINES = changed_files("pipelines", PIPELINE, "models.captioner", ATTACKS["named"])
OF_RECIPES = changed_files("recipes", RECIPE, "model", ATTACKS["named"])
NAMES = {attack: model["name"] for attack, model in ATTACKS["named"].items() if len(model) == 1}
OF_LOOPS = changed_files("loops", LOOP, "captioner", NAMES)


@pytest.mark.parametrize(
    ("kind", "attack"),
    [
        pytest.param(kind, attack, marks=pytest.mark.costly if _SPELLED.search(attack) else ())
        for kind, of in (("pipeline", OF_PIPELINES), ("recipe", OF_RECIPES), ("loop", OF_LOOPS))
        for attack in of
    ],
)
def test_recipe(kind: str, attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    values = {"pipeline": OF_PIPELINES, "recipe": OF_RECIPES, "loop": OF_LOOPS}[kind][attack]
    for name, content in {"pipeline": PIPELINE, "recipe": RECIPE, "loop": LOOP, kind: values}.items():
        world.write(f"{name}.yaml", content)
    world.tell(values)
    world.write("model/model.yaml", {"adapter": "openai", "model": "m", "base_url": "{server}/v1"})
    world.write("outside.jsonl", [{"image": "{elsewhere}/SECRET.png", "captions": ["a dog"]}])
    world.write(
        "further.jsonl", [{"image": "in.png", "captions": ["a"], "further_images": ["../elsewhere/SECRET.png"]}]
    )
    brings_code(world, "auto", "evil")
    ended = look(world, listener, COMMANDS[kind], capsys)
    came_to_its_end(attack, ended)


# ------------------------------------------------------------------------------------ rows, images, captions

OF_FOLDER_COMMAND = "make {here}/pipeline.yaml --data {here} --output made-of-folder"
"""It reads what lies in the folder, whatever rows name."""


def write_files_that_are_no_images(world: World) -> None:
    world.write("script.png", f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%touch {world.ran}) (w) file\n")
    world.write("list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{server}/x.ts\n#EXT-X-ENDLIST\n")


@pytest.mark.parametrize("attack", dear(IMAGES))
def test_rows_images_and_captions(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    image = IMAGES[attack]
    world.write("strange.yaml", TASK)
    world.write("pipeline.yaml", PIPELINE)
    world.write("recipe.yaml", RECIPE)
    world.tell(image)
    world.write("rows.jsonl", [{**ROW, "image": image, "further_images": [image], "provenance": [image]}])
    world.write("train.jsonl", [{"image": image, "captions": ["a dog"]}])
    world.write("dci/splits.json", json.dumps({"test": ["0.json"]}))
    world.write("dci/complete/0.json", json.dumps({"image": f"../../{image}", "mask_data": {}, "short_caption": "a"}))
    write_files_that_are_no_images(world)
    world.write("evil.pkl", pickle.dumps(Shell(world.ran)))
    look(world, listener, COMMANDS["data"], capsys)


def test_folder_of_images(world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    world.write("pipeline.yaml", PIPELINE)
    world.tell(list(LINKS))
    write_files_that_are_no_images(world)
    look(world, listener, [OF_FOLDER_COMMAND], capsys)


# --------------------------------------------------------------------- suites, clusters, runs, sessions, boards


@pytest.mark.parametrize("attack", ROWS_OF_SUITE)
def test_recorded_folder_of_a_suite(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    (world.stranger / "rows.jsonl").unlink()
    (world.stranger / "train.jsonl").unlink()
    world.write("models.yaml", {"detailcaps_table4": {"CogVLM": ROWS_OF_SUITE[attack]}})
    world.write("model/model.yaml", {"adapter": "openai", "model": "m", "base_url": "{server}/v1"})
    world.tell(ROWS_OF_SUITE[attack])
    if attack == "read: scores by a link":
        (world.stranger / "detailcaps").mkdir()
        (world.stranger / "detailcaps/CogVLM.jsonl").symlink_to(world.elsewhere / "rows.jsonl")
    suite = "run --suite detailcaps_table4 --recorded {here} --bootstrap 0"
    data = "--data detailcaps=mine/rows.jsonl --skip_checks --limit 1"
    look(world, listener, [f"{suite} --dry_run", f"{suite} {data} --dry_run", f"{suite} {data}"], capsys)


@pytest.mark.parametrize("attack", CLUSTERS)
def test_cluster_file(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    world.write("cluster.yaml", CLUSTERS[attack])
    world.tell(CLUSTERS[attack])
    run = "run --task mine --include_path mine --model captions:mine/rows.jsonl --bootstrap 0 --cluster {here}/cluster.yaml"
    commands = [
        f"{run} --dry_run",
        f"{run} --run_folder shared",
        "make shapes_positives --data mine/rows.jsonl --cluster {here}/cluster.yaml --dry_run",
        "score mine/rows.jsonl --metrics length --cluster {here}/cluster.yaml --run_folder scored",
    ]
    look(world, listener, commands, capsys)
    scripts = [path for path in (world.desk / "shared").rglob("*.s*") if path.is_file()]
    assert not [script for script in scripts if str(world.elsewhere) in script.read_text()]


OF_RUNS: dict[str, Callable[[World, Path, dict[str, Any]], None]] = {
    "nothing": lambda world, run, record: None,
    "read: record by a link": lambda world, run, record: linked(run / "run.json", world.elsewhere / "rows.jsonl"),
    "read: samples by a link": lambda world, run, record: linked(run / "samples.parquet", world.elsewhere / "rows.jsonl"),
    "read: picture": lambda world, run, record: record.update(pictures={"0": "../../../../../elsewhere/SECRET.png"}),
    "read: picture of a root": lambda world, run, record: record.update(pictures={"0": str(world.elsewhere / "SECRET.png")}),
    "read: picture by a link": lambda world, run, record: (
        linked(run / "pictures.png", world.elsewhere / "SECRET.png"),
        record.update(pictures={"0": "pictures.png"}),
    ),
    "read: file of the run": lambda world, run, record: record.update(
        files={**(record["files"] or {}), "../../../../../elsewhere/rows.jsonl": hashlib.sha256(b"x").hexdigest()}
    ),
    "server: model": lambda world, run, record: record["config"].update(
        model="openai", model_args={"model": "m", "base_url": world.fill("{server}/v1"), "api_key_env": "MY_SECRET_TOKEN"}
    ),
    "code: metric": lambda world, run, record: record["config"].update(encoder=str(world.stranger / "auto")),
    "write: names": lambda world, run, record: record.update(task="../../elsewhere/x", model_name="../../elsewhere/y"),
}  # fmt: skip


def linked(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("attack", dear(OF_RUNS))
def test_run_and_leaderboard(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    assert (
        typed(
            world,
            "run --task mine --include_path mine --model captions:mine/rows.jsonl --bootstrap 0 --output_path {here}",
        )
        == 0
    )
    (run,) = (file.parent for file in world.stranger.rglob("run.json"))
    record = json.loads((run / "run.json").read_text())
    OF_RUNS[attack](world, run, record)
    if not (run / "run.json").is_symlink():
        record["checksum"] = checksum(record)
        (run / "run.json").write_text(json.dumps(record, ensure_ascii=False))
    board = world.stranger / "board"
    board.mkdir()
    (board / "files.json").symlink_to(world.elsewhere / "rows.jsonl")
    (board / "leaderboard.json").symlink_to(world.elsewhere / "rows.jsonl")
    look(world, listener, [command.replace("{run}", str(run)) for command in COMMANDS["run"]], capsys)


@pytest.mark.parametrize("attack", ["picture", "answers", "lock", "items", "design", "task that is made"])
def test_rating_session(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    session = make_session(world.stranger, rows=2, better="which")
    folder = session.folder
    secret = world.elsewhere / "SECRET.png"
    if attack == "picture":
        linked(folder / "images" / session.items[0].picture, secret)
    elif attack == "answers":
        (folder / "answers/anna.jsonl").symlink_to(world.elsewhere / "anna.jsonl")
    elif attack == "task that is made":
        for name in ("photos_rated.yaml", "rows.jsonl", "report.md"):
            (folder / name).symlink_to(world.elsewhere / name)
    else:
        name = {"lock": ".lock", "items": "items.jsonl", "design": "design.json"}[attack]
        linked(folder / name, world.elsewhere / ("lock" if attack == "lock" else "rows.jsonl"))
    look(world, listener, ["rate photos --output {here}/session --report --include_path {here}/task"], capsys)
    with watched() as events, suppress(BenchError, OSError):
        opened = read_session(folder)
        shown = opened.picture(0)
        assert shown is None or shown.content != secret.read_bytes()
        with locked(folder):
            desk = RatingQueue(opened)
            desk.answer("anna", 1, 1)
    assert strange(world, events) == []
    assert sorted(path.name for path in world.elsewhere.iterdir()) == ELSEWHERE


def test_documents_say_how_much_was_tried():
    # Each of these lists has an ordinary one, too.
    with_usual = (OF_TASKS, OF_MODELS, OF_PIPELINES, OF_RECIPES, OF_RUNS)
    tried = sum(len(cases) - 1 for cases in with_usual)
    tried += len(OF_LOOPS) + len(IMAGES) + len(ROWS_OF_SUITE) + len(CLUSTERS)
    assert f"None of {tried} attempts" in (PACKAGE_ROOT / "docs/reliability.md").read_text()

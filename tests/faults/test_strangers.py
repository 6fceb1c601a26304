"""A folder that a stranger wrote looks at nothing outside, calls nobody, sends nothing and runs nothing by itself.

Each kind of folder tries one thing at a time, and every command that takes it is carried out, dry and in earnest, under
an audit hook and beside a server that counts who comes. Nothing here is allowed by any option; what the options allow is
tried in ``test_allowed.py``.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shlex
import shutil
import site
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from watched import ASKING, Event, watched

from capbench.adapters.aliases import ALIAS_FOLDER
from capbench.benchmarks.cli.main import main
from capbench.permissions import PACKAGE_ROOT

LINKS = {
    "link.png": "SECRET.png", "link.jsonl": "rows.jsonl", "link.yaml_": "other.yaml", "link.json": "rows.jsonl", "linked": "",
}  # fmt: skip
SECRET = "s3cr3t-of-this-machine"
ELSEWHERE = ["SECRET.png", "config.json", "model.yaml", "other.yaml", "rows.jsonl"]
ROW = {"id": "0", "image": "in.png", "references": ["a dog runs"], "captions": ["a dog"], "caption": "a dog"}
TASK: dict[str, Any] = {
    "task": "strange",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "output_type": "generate_until",
    "doc_to_id": "id",
    "doc_to_text": "Describe it.",
    "doc_to_image": "image",
    "doc_to_target": "references",
    "metric_list": ["length"],
    "metadata": {"version": 1.0},
}
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


class Listener:
    """A server that answers nobody and counts who comes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.came = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            self.came += 1
            visitor.close()

    def close(self) -> None:
        self._socket.close()


@dataclass
class World:
    """A desk that commands are typed at, a stranger's folder, and what lies elsewhere on the machine."""

    root: Path
    port: int
    desk: Path = field(init=False)
    stranger: Path = field(init=False)
    elsewhere: Path = field(init=False)

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
            if name in str(values):
                (self.stranger / name).symlink_to(self.elsewhere / where)

    def fill(self, text: str) -> str:
        """Put places into what a stranger writes."""
        told = {
            "{elsewhere}": self.elsewhere,
            "{server}": f"http://127.0.0.1:{self.port}",
            "{here}": self.stranger,
        }
        for sign, place in {**told, "{host}": f"127.0.0.1:{self.port}"}.items():
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


yaml.SafeDumper.add_representer(Tagged, lambda dumper, one: dumper.represent_scalar("!function", str(one)))


def written(values: Any) -> str:
    if isinstance(values, list):
        return "".join(f"{json.dumps(one)}\n" for one in values)
    return yaml.safe_dump(values, sort_keys=False)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def world(tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, listener.port)
    Image.new("RGB", (16, 16), (200, 10, 10)).save(made.elsewhere / "SECRET.png")
    (made.elsewhere / "rows.jsonl").write_text(
        json.dumps({**ROW, "image": "SECRET.png", "caption": SECRET}) + "\n"
    )
    (made.elsewhere / "other.yaml").write_text(yaml.safe_dump({**TASK, "description": SECRET}))
    (made.elsewhere / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": [SECRET]}))
    (made.elsewhere / "model.yaml").write_text(
        yaml.safe_dump({"adapter": "captions", "path": "./rows.jsonl"})
    )
    for place in (made.desk / "mine", made.stranger):
        place.mkdir(exist_ok=True)
        Image.new("RGB", (16, 16), (10, 200, 10)).save(place / "in.png")
        (place / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
        (place / "train.jsonl").write_text(json.dumps({"image": "in.png", "captions": ["a dog"]}) + "\n")
    (made.desk / "mine/mine.yaml").write_text(yaml.safe_dump({**TASK, "task": "mine"}))
    (made.stranger / "evil.py").write_text(EVIL.format(ran=str(made.ran)))
    monkeypatch.chdir(made.desk)
    monkeypatch.setenv("MY_SECRET_TOKEN", SECRET)
    # Whoever says yes to all that is asked at the terminal has not allowed anything.
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 1000))
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    return made


def typed(world: World, command: str) -> int:
    """Carry a command out; how it ends is its own business."""
    words = shlex.split(world.fill(command))
    with suppress(SystemExit):
        return main(words)
    return 2


LIBRARIES = tuple(
    os.path.realpath(one)
    for one in (
        sys.prefix, sys.base_prefix, *site.getsitepackages(), PACKAGE_ROOT, "/proc", "/sys", "/dev", "/etc", "/usr",
        "/lib", "/opt", os.environ.get("HF_HOME") or Path.home() / ".cache", tempfile.gettempdir(),
    )
)  # fmt: skip


def strange(world: World, events: Sequence[Event]) -> list[Event]:
    """Return what a stranger's folder had done that nobody allowed."""
    root = os.path.realpath(world.root)
    mine = tuple(os.path.join(root, one) for one in ("desk", "cache"))
    its = os.path.join(root, "stranger")

    def is_below(path: str, *folders: str) -> bool:
        return any(path == one or path.startswith(one + os.sep) for one in folders)

    found: list[Event] = []
    for one in events:
        if one.kind in ("read", "write"):
            inside = (
                is_below(one.what, *mine, its) if is_below(one.what, root) else is_below(one.what, *LIBRARIES)
            )
            # To list the folder in which all lie is to look for what lies there.
            if not inside and one.what != root:
                found.append(one)
        elif one.kind in ("import", "compile", "exec"):
            if is_below(os.path.realpath(one.what), its) or "transformers_modules" in one.what:
                found.append(one)
        elif one.kind == "start" and one.what.startswith(f"git -C {PACKAGE_ROOT} "):
            # A record says which state of capbench made it.
            continue
        elif one.kind in (*ASKING, "start") or (
            one.kind == "unpickle" and one.what.startswith(("posix.", "os."))
        ):
            found.append(one)
    return list(dict.fromkeys(found))


def look(
    world: World, listener: Listener, commands: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Carry commands out, and see that nothing was done that nobody allowed."""
    came = listener.came
    found: dict[str, list[Event]] = {}
    for command in commands:
        with watched() as events:
            print("\n$", command, flush=True)
            typed(world, command)
        if one := strange(world, events):
            found[command] = one
    assert found == {}
    assert not world.ran.exists(), world.ran.read_text()
    assert listener.came == came
    told = capsys.readouterr()
    if os.environ.get("SEE"):
        Path(os.environ["SEE"]).open("a").write(told.out + told.err + "=====\n")
    assert SECRET not in told.out + told.err
    kept = [one for one in world.desk.rglob("*") if one.is_file()]
    assert not [one for one in kept if SECRET.encode() in one.read_bytes()]
    assert sorted(one.name for one in world.elsewhere.iterdir()) == ELSEWHERE


class Shell:
    """A pickle that runs a command."""

    def __init__(self, ran: Path) -> None:
        self._ran = str(ran)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self._ran}",)


# ------------------------------------------------------------------------------------------------ tasks

READER = {"custom_dataset": Tagged("evil.read"), "dataset_path": "rows.jsonl", "dataset_kwargs": {}}
OF_TASKS: dict[str, Mapping[str, Any]] = {
    "server: data": {"dataset_kwargs": {"data_files": "{server}/rows.jsonl"}},
    "server: data by a chain": {"dataset_kwargs": {"data_files": "simplecache::{server}/rows.jsonl"}},
    "server: data after a space": {"dataset_kwargs": {"data_files": " {server}/rows.jsonl"}},
    "server: path of data": {"dataset_path": "{server}/rows", "dataset_kwargs": {}},
    "server: path of data and key": {
        "dataset_path": "text",
        "dataset_kwargs": {"data_files": "{server}/a.txt", "api_key_env": "MY_SECRET_TOKEN"},
    },
    "server: fsspec's own references": {
        "dataset_path": "text",
        "dataset_kwargs": {"data_files": "reference://::{here}/references.json"},
    },
    "server: image": {"doc_to_image": "{server}/in.png"},
    "server: image by a template": {"doc_to_image": "{{ '{server}/' + image }}"},
    "server: scores": {"metric_list": [{"metric": "recorded", "file": "{server}/x.jsonl", "label": "X"}]},
    "server: in a metric's name": {"metric_list": ["recorded[file={server}/x.jsonl,label=X]"]},
    "server: decoding": {"generation_kwargs": {"base_url": "{server}/v1", "api_key_env": "MY_SECRET_TOKEN"}},
    "server: download of a data card": {"data_source": "card.yaml"},
    "server: sql": {"dataset_path": "sql", "dataset_kwargs": {"sql": "select 1", "con": "postgresql://{host}/x"}},
    "read: data": {"dataset_kwargs": {"data_files": "{elsewhere}/rows.jsonl"}},
    "read: data above": {"dataset_kwargs": {"data_files": "../elsewhere/rows.jsonl"}},
    "read: data by a link": {"dataset_kwargs": {"data_files": "link.jsonl"}},
    "read: data by a pattern": {"dataset_kwargs": {"data_files": "../else*/*.jsonl"}},
    "read: data by a pattern through a link": {"dataset_kwargs": {"data_files": "link*/*.jsonl"}, "description": "linked"},
    "read: data by an address": {"dataset_path": "text", "dataset_kwargs": {"data_files": "file://{elsewhere}/rows.jsonl"}},
    "read: folder of data": {"dataset_path": "{elsewhere}", "dataset_kwargs": {}},
    "read: folder of data above": {"dataset_path": "../elsewhere", "dataset_kwargs": {}},
    "read: data_dir": {"dataset_path": "text", "dataset_kwargs": {"data_dir": "{elsewhere}"}},
    "read: sqlite": {"dataset_path": "sql", "dataset_kwargs": {"sql": "select 1", "con": "sqlite:///{elsewhere}/x.db"}},
    "read: include": {"include": "{elsewhere}/other.yaml"},
    "read: include above": {"include": "../elsewhere/other.yaml"},
    "read: include by a link": {"include": "link.yaml_"},
    "read: image": {"doc_to_image": "{elsewhere}/SECRET.png"},
    "read: image above": {"doc_to_image": "../elsewhere/SECRET.png"},
    "read: image by a link": {"doc_to_image": "link.png"},
    "read: image by a template": {"doc_to_image": "{{ '../elsewhere/SECRET.png' }}"},
    "read: folder of images": {"image_folder": "../elsewhere", "doc_to_image": "SECRET.png"},
    "read: folder of images by a link": {"image_folder": "linked", "doc_to_image": "SECRET.png"},
    "read: join": {"join": {"file": "../elsewhere/rows.jsonl", "on": "id", "columns": ["caption"]}},
    "read: join by a link": {"join": {"file": "link.jsonl", "on": "id", "columns": ["caption"]}},
    "read: data card": {"data_source": "{elsewhere}/other.yaml"},
    "read: data card above": {"data_source": "../elsewhere/other.yaml"},
    "read: data card by a link": {"data_source": "link.yaml_"},
    "read: paper": {"published": {"paper": "{elsewhere}/other", "table": 1, "task": "x"}},
    "read: scores": {"metric_list": [{"metric": "recorded", "file": "{elsewhere}/rows.jsonl", "label": "X"}]},
    "read: scores above": {"metric_list": ["recorded[file=../elsewhere/rows.jsonl,label=X]"]},
    "read: scores by a link": {"metric_list": ["recorded[file=link.jsonl,label=X]"]},
    "read: checkpoint of a metric": {"metric_list": ["bertscore[model={elsewhere}]"]},
    "read: prompts": {"generation_kwargs": {"decoding": "dbd", "dbd_prompts": "{elsewhere}/other.yaml"}},
    "read: installed reader, other path": {
        "custom_dataset": None,
        "data_source": "card.yaml",
        "include": str(PACKAGE_ROOT / "tasks/nocaps/nocaps.yaml"),
        "dataset_path": "{elsewhere}",
    },
    "code: reader": READER,
    "code: documents": {"process_docs": Tagged("evil.same")},
    "code: image": {"doc_to_image": Tagged("evil.same")},
    "code: targets": {"doc_to_target": [Tagged("evil.same")]},
    "code: metric": {"metric_list": [{"metric": Tagged("evil.same"), "aggregation": "mean", "higher_is_better": True}]},
    "code: statistic": {"output_type": "agreement", "statistics": [Tagged("evil.same")]},
    "code: of the standard library": {"process_docs": Tagged("os.system")},
    "code: evaluate, of the hub": {"metric_list": ["evaluate:evil/metric"]},
    "code: evaluate, beside": {"metric_list": ["evaluate:{here}/evil.py"]},
    "code: template": {"doc_to_text": "{{ ''.__class__.__mro__[1].__subclasses__() }}"},
    "code: template that imports": {"doc_to_text": "{% include 'evil.py' %}{{ cycler.__init__.__globals__.os }}"},
    "code: pickle of pandas": {"dataset_path": "pandas", "dataset_kwargs": {"data_files": "evil.pkl"}},
    "code: script of data": {"dataset_path": "{here}/script", "dataset_kwargs": {"trust_remote_code": True}},
    "code: checkpoint of a metric": {"metric_list": ["bertscore[model={here}/auto]"]},
    "write: name": {"task": "../../elsewhere/x"},
}  # fmt: skip
TASKS = "--include_path {here}"
OF_TASK_COMMANDS = [
    f"ls tasks {TASKS}",
    f"show strange {TASKS}",
    f"plan --task strange {TASKS}",
    f"data strange {TASKS}",
    f"data strange --download {TASKS}",
    f"validate strange {TASKS}",
    "validate {here}/strange.yaml",
    f"run --task strange --dry_run {TASKS}",
    f"run --task strange --model captions:rows.jsonl --dry_run {TASKS}",
    f"run --task strange --model captions:mine/rows.jsonl --bootstrap 0 {TASKS}",
    f"make shapes_positives --data strange --dry_run {TASKS}",
    f"make shapes_positives --data strange --output made {TASKS}",
    f"train shapes_captioner_xe --set data.task=strange --set data.reader=null --set data.arguments={{}} --dry_run {TASKS}",
    f"rate strange --captions mine/rows.jsonl --better which --output session --report {TASKS}",
    f"export lm-eval --tasks strange -o lm_tasks {TASKS}",
    f"export prompts --task strange --model captions:mine/rows.jsonl -o prompts.jsonl {TASKS}",
]
CARD = {
    "title": "T", "folder": "strange", "homepage": "x", "licence": "x", "terms": "x", "citation": "x", "how": "x",
    "files": [{"path": "x", "what": "x"}], "downloads": [{"url": "{server}/x", "file": "x"}],
}  # fmt: skip


@pytest.mark.parametrize("attack", OF_TASKS)
def test_task(attack: str, world: World, listener: Listener, capsys: pytest.CaptureFixture[str]):
    values = {**TASK, **OF_TASKS[attack]}
    world.write("strange.yaml", {key: one for key, one in values.items() if one is not None})
    world.tell(values)
    world.write("card.yaml", CARD)
    world.write("references.json", json.dumps({"rows.txt": ["{server}/x"]}))
    world.write("script/script.py", EVIL.format(ran=str(world.ran)))
    world.write("evil.pkl", pickle.dumps(Shell(world.ran)))
    brings_code(world, "auto", "bert")
    look(world, listener, OF_TASK_COMMANDS, capsys)


def brings_code(world: World, name: str, kind: str) -> None:
    """Write a checkpoint whose parts name a Python file beside them."""
    classes = (
        "AutoConfig",
        "AutoModel",
        "AutoTokenizer",
        "AutoProcessor",
        "AutoImageProcessor",
        "AutoModelForCausalLM",
    )
    mapped = dict.fromkeys(classes, "modeling_evil.EvilModel")
    tokenizer = {
        "auto_map": {"AutoTokenizer": ["modeling_evil.EvilTokenizer", None]},
        "tokenizer_class": "EvilTokenizer",
    }
    world.write(f"{name}/config.json", json.dumps({"model_type": kind, "auto_map": mapped}))
    world.write(f"{name}/tokenizer_config.json", json.dumps(tokenizer))
    world.write(f"{name}/preprocessor_config.json", json.dumps({"auto_map": mapped}))
    world.write(f"{name}/modeling_evil.py", EVIL.format(ran=str(world.ran)))


# ----------------------------------------------------------------------------------------------- models

OF_MODELS: dict[str, Mapping[str, Any]] = {
    "server": {"adapter": "openai", "model": "m", "base_url": "{server}/v1"},
    "server: key": {"adapter": "openai", "model": "m", "api_key_env": "MY_SECRET_TOKEN"},
    "server: both": {"adapter": "openai", "model": "m", "base_url": "{server}/v1", "api_key_env": "MY_SECRET_TOKEN"},
    "server: after a space": {"adapter": "openai", "model": "m", "base_url": " {server}/v1"},
    "server: in capitals": {"adapter": "openai", "model": "m", "base_url": "HTTP://{host}/v1"},
    "server: judge": {"adapter": "openai_judge", "model": "m", "base_url": "{server}/v1"},
    "server: lm-eval": {
        "adapter": "lmms", "package": "lm_eval", "model": "local-chat-completions",
        "base_url": "{server}/v1/chat/completions", "tokenized_requests": False,
    },
    "server: lm-eval after a space": {
        "adapter": "lmms", "package": "lm_eval", "model": "local-completions",
        "base_url": "\t{server}/v1/completions", "tokenizer_backend": None,
    },
    "server: checkpoint": {"adapter": "hf", "pretrained": "{server}/model"},
    "server: captions": {"adapter": "captions", "path": "{server}/captions.jsonl"},
    "read: checkpoint": {"adapter": "hf", "pretrained": "{elsewhere}"},
    "read: checkpoint above": {"adapter": "hf", "pretrained": "../elsewhere"},
    "read: checkpoint beside and above": {"adapter": "hf", "pretrained": "./../elsewhere"},
    "read: checkpoint by a link": {"adapter": "hf", "pretrained": "./linked"},
    "read: checkpoint of open_clip": {"adapter": "open_clip", "pretrained": "{elsewhere}/rows.jsonl", "architecture": "ViT-B-32"},
    "read: architecture": {"adapter": "open_clip", "pretrained": "./evil.bin", "architecture": "./link.json"},
    "read: tokenizer": {"adapter": "pac", "checkpoint": "./evil.bin", "tokenizer": "./linked"},
    "read: captions": {"adapter": "captions", "path": "{elsewhere}/rows.jsonl"},
    "read: captions above": {"adapter": "captions", "path": "../elsewhere/rows.jsonl"},
    "read: captions by a link": {"adapter": "captions", "path": "./link.jsonl"},
    "read: answers": {"adapter": "responses", "path": "{elsewhere}/rows.jsonl"},
    "read: scores of pairs": {"adapter": "pair_scores", "path": "./link.jsonl"},
    "read: parts of a checkpoint by links": {"adapter": "hf", "pretrained": "./links"},
    "read: base of an adapter": {"adapter": "hf", "pretrained": "./based"},
    "read: adapter": {"adapter": "hf", "pretrained": "./llava", "peft": "{elsewhere}"},
    "read: text tower of open_clip": {"adapter": "open_clip", "pretrained": "./tower"},
    "code: said so": {"adapter": "hf", "pretrained": "./auto", "trust_remote_code": True},
    "code: said so in words": {"adapter": "hf", "pretrained": "./auto", "trust_remote_code": "yes"},
    "code: of a kind without a class": {"adapter": "hf", "pretrained": "./auto"},
    "code: of a known kind": {"adapter": "hf", "pretrained": "./known"},
    "code: vision encoder and decoder": {"adapter": "hf", "pretrained": "./paired"},
    "code: judge": {"adapter": "hf_judge", "pretrained": "./auto"},
    "code: judge said so": {"adapter": "hf_judge", "pretrained": "./auto", "trust_remote_code": True},
    "code: encoder": {"adapter": "hf_clip", "pretrained": "./auto"},
    "code: encoder of a known kind": {"adapter": "hf_clip", "pretrained": "./clip"},
    "code: regions": {"adapter": "sam", "pretrained": "./auto"},
    "code: detector": {"adapter": "grounding_dino", "pretrained": "./auto"},
    "code: vllm": {"adapter": "vllm", "pretrained": "./auto", "trust_remote_code": True},
    "code: lm-eval": {"adapter": "lmms", "package": "lm_eval", "model": "hf-multimodal", "pretrained": "{here}/auto"},
    "code: tokenizer of open_clip": {"adapter": "open_clip", "pretrained": "./open_clip"},
    "code: adapter's library": {"adapter": "hf", "pretrained": "./llava", "peft": "./megatron"},
    "code: parts of a pipeline": {"adapter": "diffusion", "pretrained": "./pipeline"},
    "code: pickle": {"adapter": "open_clip", "pretrained": "./evil.bin", "architecture": "RN50"},
    "code: pickled checkpoint": {"adapter": "hf", "pretrained": "./pickled"},
    "code: pickle of PAC": {"adapter": "pac", "checkpoint": "./evil.bin", "tokenizer": "./open_clip"},
    "code: chat template": {"adapter": "hf", "pretrained": "./template"},
    "write: name": {"adapter": "captions", "path": "./rows.jsonl", "name": "../../../elsewhere/x"},
}  # fmt: skip
OF_MODEL_COMMANDS = [
    "show {here}",
    "plan --task mine --model {here} --include_path mine",
    "run --task mine --include_path mine --model {here} --dry_run",
    "run --task mine --include_path mine --model {here} --bootstrap 0 --limit 1 --gen_kwargs max_new_tokens=2",
    "run --task mine --include_path mine --model captions:mine/rows.jsonl --encoder {here} --metrics {metric} --bootstrap 0",
    "run --task mine --include_path mine --model captions:mine/rows.jsonl --judge {here} --metrics fleur --bootstrap 0",
    "make shapes_positives --data mine/rows.jsonl --dry_run --set models.captioner={name:\\ {here}}",
    "make shapes_positives --data mine/rows.jsonl --output made --set models.captioner={name:\\ {here}}",
    "make shapes_positives --data mine/rows.jsonl --output made --set models.painter={name:\\ {here}}",
    "make shapes_detailcaps_synthesis --data mine/rows.jsonl --output made --set models.segmenter={name:\\ {here}}",
    "make shapes_detailcaps_synthesis --data mine/rows.jsonl --output made --set models.detector={name:\\ {here}}",
    "train shapes_captioner_xe --set data.reader=null --set data.arguments={} --set data.file=mine/train.jsonl "
    "--dry_run --no_judge --set model.name={here}",
    "loop shapes_loop --dry_run --set captioner={here} --set make.data=mine",
]


def checkpoints(world: World, attack: str) -> None:
    """Write checkpoints that try one thing each."""
    for name, kind in {
        "auto": "evil",
        "known": "llava",
        "clip": "clip",
        "paired": "vision-encoder-decoder",
    }.items():
        brings_code(world, name, kind)

    def copied(name: str, of: str) -> Path:
        return Path(shutil.copytree(ALIAS_FOLDER / of, world.stranger / name))

    evil = EVIL.format(ran=str(world.ran))
    auto = {"AutoTokenizer": ["modeling_evil.EvilTokenizer", None]}
    folder = copied("open_clip", "shapes-clip")
    configuration = json.loads((folder / "open_clip_config.json").read_text())
    configuration["model_cfg"]["text_cfg"] |= {
        "hf_tokenizer_name": "x",
        "tokenizer_kwargs": {"trust_remote_code": True},
    }
    (folder / "open_clip_config.json").write_text(json.dumps(configuration))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": auto, "tokenizer_class": "EvilTokenizer"})
    )
    (folder / "modeling_evil.py").write_text(evil)
    folder = copied("tower", "shapes-clip")
    configuration["model_cfg"]["text_cfg"] = {"hf_model_name": str(world.elsewhere), "hf_tokenizer_name": "x"}
    (folder / "open_clip_config.json").write_text(json.dumps(configuration))
    copied("llava", "shapes-llava")
    folder = copied("based", "shapes-llava")
    configuration = json.loads((ALIAS_FOLDER / "shapes-answers/adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(
        json.dumps({**configuration, "base_model_name_or_path": str(world.elsewhere)})
    )
    folder = copied("template", "shapes-llava")
    (folder / "chat_template.jinja").write_text(
        "{{ cycler.__init__.__globals__.os.system('touch " + str(world.ran) + "') }}"
    )
    folder = copied("pickled", "shapes-llava")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Shell(world.ran)))
    folder = copied("megatron", "shapes-answers")
    configuration = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(
        json.dumps({**configuration, "megatron_config": {"x": 1}, "megatron_core": "evil"})
    )
    if "links" in attack:
        (world.stranger / "links").mkdir()
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (world.stranger / "links" / name).symlink_to(world.elsewhere / "rows.jsonl")
    world.write("pipeline/model_index.json", json.dumps({
        "_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0", "scheduler": ["evil", "EvilModel"],
        "unet": ["evil", "EvilModel"], "vae": ["evil", "EvilModel"], "tokenizer": ["evil", "EvilTokenizer"],
        "text_encoder": ["evil", "EvilModel"], "safety_checker": [None, None], "feature_extractor": [None, None],
    }))  # fmt: skip
    for part in ("scheduler", "unet", "vae", "tokenizer", "text_encoder"):
        world.write(f"pipeline/{part}/config.json", "{}")
    world.write("evil.bin", pickle.dumps(Shell(world.ran)))


@pytest.mark.parametrize("attack", OF_MODELS)
def test_model(
    attack: str,
    world: World,
    listener: Listener,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    # As where the program is started by 'python -m' in the stranger's folder.
    monkeypatch.syspath_prepend(str(world.stranger))
    world.write("model.yaml", OF_MODELS[attack])
    checkpoints(world, attack)
    world.tell(OF_MODELS[attack])
    metric = "pac_s" if OF_MODELS[attack]["adapter"] == "pac" else "clip_s"
    look(world, listener, [one.replace("{metric}", metric) for one in OF_MODEL_COMMANDS], capsys)

"""Turns ``--model`` into an adapter: an alias, an adapter's name, ``captions:FILE``, or a folder of a recipe.

A file of ``adapters/models`` holds one alias, whose name is the file's, or several by name. An alias's keys are
``adapter``, ``description``, ``size`` (its parameters, such as ``151M``), ``licence`` and ``date`` (year and month) of
its weights, ``source`` (the hub id or address that they come from, ``pretrained`` if that is a hub id), ``code``
(``own`` where only code of the model's own repository runs it), ``fetch`` (files that no hub has, for ``bench fetch``;
keys of a ``FileSource``) and, all others, the adapter's arguments. One that begins with ``./`` is a file or folder next
to the alias file. Models of open_clip are named by architecture and tag, as ``vit-b-32.laion2b_s34b_b79k``; those of
transformers as on the hub, without the owner. ``--model ViT-B-32``, an architecture of open_clip, takes any of its tags
in ``pretrained``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..access import Request, linked_outside, requests_of, require_permitted
from ..boundary import exists
from ..downloads import Files, FileSource, Repository, Resource
from ..errors import AdapterError, UsageError, did_you_mean
from ..paths import checkpoint_folder, is_file
from ..permissions import permitted, runs_code
from ..rows import load_json, load_yaml
from . import Adapter, Detector, Encoder, Judge, Painter, Segmenter, adapters
from .arguments import RANDOM, parse_arguments, random_name
from .checkpoint_identity import hub_commit
from .contracts import Model, TrainableModel

ALIAS_FOLDER = Path(__file__).parent / "models"
ALIAS_FILE = "model.yaml"
"""The alias file that makes a folder a model, such as a folder that a recipe wrote."""
_HUB_ID = re.compile(r"[\w-]+/[\w.-]+")
_OF_FILES = ("captions", "pair_scores", "responses")
"""Adapters that ``ADAPTER:FILE`` names with their file."""
_OF_LM_EVAL = {"hf-multimodal": "hf", "vllm-vlm": "vllm"}
"""Names of lm-eval's model classes to adapters."""

OWN_CODE = (
    "Run it by --model lmms or vllm, or with its own code, and serve captions (--model captions:FILE) or scores of an "
    "encoder (--model pair_scores:FILE). --model_args trust_remote_code=true runs a captioner's own code, which can do "
    "anything on this machine."
)
"""What to do with a model that only code of its own repository runs."""

Role: TypeAlias = Literal["captioner", "encoder", "judge", "segmenter", "detector", "painter"]
_KINDS: dict[Role, type[Adapter]] = {
    "encoder": Encoder,
    "judge": Judge,
    "segmenter": Segmenter,
    "detector": Detector,
    "painter": Painter,
}


@dataclass(frozen=True)
class ModelSpec:
    """A model that was named but not loaded.

    Attributes:
        name: How results call it.
        adapter: Name of the adapter.
        arguments: The adapter's arguments.
        description: A sentence.
        size: How many parameters it has, such as ``151M``.
        source: The hub id or address that its weights come from.
        licence: The licence of its weights, as their authors state it.
        date: Year and month in which they were released, such as ``2023-10``.
        own_code: Whether only code of its own repository runs it.
        printed_as: Key of a paper to what its tables call metrics with this model behind them, by the metrics'
            labels; a metric that is left out has no number there.
        published_as: Key of a paper to what its tables call the model; several names where its tables differ.
        instance: The model itself, where it was not named.
        fetch: Files that it reads from the folder of checkpoints, and where they come from.
    """

    name: str
    adapter: str
    arguments: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    size: str = ""
    source: str = ""
    licence: str = ""
    date: str = ""
    own_code: bool = False
    printed_as: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    published_as: Mapping[str, Sequence[str]] = field(default_factory=dict)
    instance: Adapter | None = None
    fetch: FileSource | None = None

    @property
    def build(self) -> Callable[..., Adapter]:
        """What builds it: its adapter."""
        return adapters[self.adapter] if self.instance is None else type(self.instance)

    @property
    def is_recorded(self) -> bool:
        """Whether it serves captions from a file."""
        return not getattr(self.build, "keep", True)

    @property
    def role(self) -> Role:
        """Its task: write captions, encode images and texts, judge, or one of a recipe's roles."""
        for role, kind in _KINDS.items():
            if isinstance(self.build, type) and issubclass(self.build, kind):
                return role
        return "captioner"

    @property
    def family(self) -> str:
        """The metrics that it is made for, if it encodes (``Encoder.family``)."""
        return getattr(self.build, "family", "")

    def check(self) -> None:
        """Raise if its weights are not on this machine, and cannot be fetched; nothing is loaded.

        Raises:
            AdapterError: The hint says how to get them.
        """
        if self.instance is not None:
            return
        if self.own_code:
            self._require_code()
        # Skip what needs the model's own code where that code does not run.
        build = adapters[self.adapter]
        if isinstance(build, type) and issubclass(build, Model) and (runs_code() or not self.runs_remote_code):
            self._require_arguments(build)
            build.check({"source": self.source, **self._arguments_of(build)})

    def resources(self) -> list[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        build = self.build
        is_model = self.instance is None and isinstance(build, type) and issubclass(build, Model)
        of_hub: Sequence[Resource] = build.resources(self._arguments_of(build)) if is_model else ()
        return [*of_hub, *([Files(self.fetch, checkpoint_folder())] if self.fetch else [])]

    def fetched_by(self) -> str:
        """Return what ``bench fetch`` is given to get its weights; empty where these are named in another way."""
        if not (parts := self.resources()):
            return ""
        of_hub = (part.argument for part in parts if isinstance(part, Repository))
        return self.name if self.name in list_aliases() else next(of_hub, "")

    def fetched_first(self) -> str:
        """As :meth:`fetched_by`; empty where its weights are on this machine."""
        return "" if all(part.is_here() for part in self.resources()) else self.fetched_by()

    @property
    def runs_remote_code(self) -> bool:
        """Whether code that comes with its checkpoint would run."""
        return bool(self._arguments_of(adapters[self.adapter]).get("trust_remote_code"))

    def load(self) -> Adapter:
        """Build the adapter, unless the model was given.

        Raises:
            UsageError: The adapter does not take these arguments.
            BenchError: The model could not be loaded.
        """
        if self.instance is not None:
            return self.instance
        if self.own_code:
            self._require_code()
        build = adapters[self.adapter]
        arguments = self._arguments_of(build)
        if self.runs_remote_code and not runs_code():
            raise AdapterError(f"{self.name}: runs its own code, which a dry run does not.")
        self._require_arguments(build)
        return build(**arguments)

    def _require_arguments(self, build: Callable[..., Any]) -> None:
        signature = inspect.signature(build)
        try:
            signature.bind(**self._arguments_of(build))
        except TypeError as error:
            takes_any = any(part.kind is part.VAR_KEYWORD for part in signature.parameters.values())
            foreign = [name for name in self.arguments if not takes_any and name not in signature.parameters]
            raise UsageError(
                f"--model {self.name}: adapter '{self.adapter}': {error}",
                f"Its arguments: {', '.join(signature.parameters)}."
                + (f" It takes no {', '.join(foreign)}." if foreign else ""),
            ) from error

    def _require_code(self) -> None:
        if not self.runs_remote_code:
            raise AdapterError(f"{self.name}: only code of {self.source} runs it, and was not run.", OWN_CODE)

    @property
    def is_local(self) -> bool:
        """Whether an argument leads to a file or folder on this machine."""
        texts = (value for value in self.arguments.values() if isinstance(value, str))
        return any(exists(Path(text).expanduser()) for text in texts)

    def pinned(self) -> dict[str, str]:
        """Return the argument ``revision`` with the commit of its hub id; empty where there is no such argument.

        Raises:
            AdapterError: The hub refuses, or does not answer, and its cache has no such model.
        """
        named = str(self.arguments.get("pretrained", ""))
        has_revision = "revision" in inspect.signature(self.build).parameters
        if self.is_local or not has_revision or not _HUB_ID.fullmatch(named):
            return {}
        return {"revision": hub_commit(named, self.arguments.get("revision"))}

    def on(self, device: str) -> ModelSpec:
        """Return the model on a device, such as ``cpu``, if its adapter computes on one."""
        known = inspect.signature(adapters[self.adapter]).parameters
        return replace(self, arguments={**self.arguments, "device": device}) if "device" in known else self

    def to_trainable(self, device: str) -> TrainableModel:
        """Build the adapter on a device, and return its module to be trained.

        Args:
            device: Such as ``cpu``; of adapters that compute on one.

        Raises:
            BenchError: The model could not be loaded, or has no trainable module.
        """
        return self.on(device).load().to_trainable()

    def _arguments_of(self, build: Callable[..., Any]) -> dict[str, Any]:
        known = inspect.signature(build).parameters
        arguments = dict(self.arguments)
        if self.source and "source" in known:
            # Adapters that download nothing name the source in messages.
            arguments.setdefault("source", self.source)
        if permitted().remote_code and "trust_remote_code" in known:
            arguments.setdefault("trust_remote_code", True)
        return arguments


def list_aliases() -> dict[str, ModelSpec]:
    """Return the models that have an alias."""
    return _aliases_of(ALIAS_FOLDER)


@cache
def _aliases_of(folder: Path) -> dict[str, ModelSpec]:
    specs: dict[str, ModelSpec] = {}
    for path in folder.glob("*.yaml"):
        values = load_yaml(path)
        several = {path.stem: values} if "adapter" in values else values
        specs |= {name: _read_alias(name, alias, path.parent) for name, alias in several.items()}
    return dict(sorted(specs.items()))


def resolve_model(model: str, model_args: str | Mapping[str, Any] = "") -> ModelSpec:
    """Return the model that ``--model`` and ``--model_args`` name.

    Args:
        model: An alias, an adapter's name, ``captions:FILE`` (for judges ``responses:FILE``), an architecture of
            open_clip, ``hf-hub:OWNER/NAME`` of its models, or a folder: with a ``model.yaml``, as recipes make them,
            or with a checkpoint of open_clip or transformers.
        model_args: ``key=value,key=value``, as in lm-eval, JSON, or a mapping; added to an alias's own.

    Raises:
        UsageError: Not known; the nearest name is proposed. Or a folder's ``model.yaml`` needs more permissions.
    """
    if model_args and isinstance(model_args, str):
        model_args = parse_arguments(model_args, "--model_args")
    arguments = dict(model_args or {})
    model = _OF_LM_EVAL.get(model, model)
    adapter, colon, path = model.partition(":")
    if colon and adapter in _OF_FILES:
        if not path:
            raise UsageError(f"--model {model}: names no file", f"{adapter}:FILE serves recorded {adapter}.")
        return ModelSpec(str(arguments.get("name") or Path(path).stem), adapter, {"path": path, **arguments})
    aliases = list_aliases()
    spec = aliases.get(model)
    if spec is None and is_file(file := Path(model).expanduser() / ALIAS_FILE):
        folder = file.resolve().parent
        require_permitted(requests_of_model(folder, arguments))
        spec = _read_alias(folder.name, load_yaml(folder / ALIAS_FILE), folder)
    if spec is not None:
        # Other weights have another source and name.
        others = [str(arguments[key]) for key in ("architecture", "pretrained") if key in arguments]
        name = str(arguments.get("name") or " ".join([spec.name, *others]))
        if others:
            own = {key: value for key, value in spec.arguments.items() if key != "revision"}
            spec = replace(
                spec, arguments=own, source="", own_code=False, fetch=None, printed_as={}, published_as={}
            )  # fmt: skip
        return _marked(replace(spec, name=name, arguments={**spec.arguments, **arguments}))
    if adapter := _adapter_of_folder(Path(model).expanduser()):
        return resolve_model(adapter, {"name": Path(model).name, "pretrained": model, **arguments})
    if model.startswith("hf-hub:"):
        return resolve_model("open_clip", {"pretrained": model, **arguments})
    if model.replace("/", "-") in _architectures():
        return _of_architecture(model.replace("/", "-"), arguments)
    if model in adapters:
        names = (arguments.get(key) for key in ("name", "pretrained", "model", "path"))
        return _marked(ModelSpec(str(next(filter(None, names), model)), model, arguments))
    known = [*aliases, *adapters, *_architectures()]
    raise UsageError(
        f"unknown model '{model}'.{did_you_mean(model, known)}",
        "'bench ls models' lists aliases and adapters; captions:FILE serves recorded captions.",
    )


@cache
def _architectures() -> frozenset[str]:
    """Return the names of open_clip's architectures, without its import, which takes seconds."""
    spec = find_spec("open_clip")
    folder = Path(spec.origin).parent / "model_configs" if spec and spec.origin else ALIAS_FOLDER
    return frozenset(path.stem for path in folder.glob("*.json"))


def _of_architecture(architecture: str, arguments: dict[str, Any]) -> ModelSpec:
    """Return an architecture of open_clip with the weights that ``pretrained`` names; an alias of both is that alias.

    Raises:
        UsageError: There is no ``pretrained``.
    """
    if not (pretrained := arguments.get("pretrained")):
        import open_clip

        raise UsageError(
            f"--model {architecture} is an architecture of open_clip; its weights are not named",
            "Add --model_args pretrained=TAG, a checkpoint file, or pretrained=random,seed=N. "
            f"Tags: {', '.join(open_clip.list_pretrained_tags_by_model(architecture)) or 'none'}.",
        )
    both = {"architecture": architecture, "pretrained": pretrained}
    for name, spec in list_aliases().items():
        # One that sets more, such as an activation that the tag was not trained with, is another model.
        if spec.adapter == "open_clip" and spec.arguments == both:
            return resolve_model(name, {key: value for key, value in arguments.items() if key not in both})
    is_tag = pretrained != RANDOM and not is_file(Path(str(pretrained)).expanduser())
    name = {"name": f"{architecture}.{pretrained}".lower()} if is_tag else {}
    return resolve_model("open_clip", {**name, **both, **arguments})


def _marked(spec: ModelSpec) -> ModelSpec:
    """Return a model whose name says that its weights are random, if they are."""
    if spec.adapter != "open_clip" or spec.arguments.get("pretrained") != RANDOM:
        return spec
    name = spec.arguments.get("name") or spec.arguments.get("architecture", spec.name)
    return replace(spec, name=random_name(str(name), spec.arguments.get("seed", 0)))


def _adapter_of_folder(folder: Path) -> str:
    """Return the adapter for a checkpoint in a folder, of open_clip or transformers; empty where there is none."""
    if is_file(folder / "open_clip_config.json"):
        return "open_clip"
    if not is_file(folder / "config.json"):
        return ""
    # A dual encoder is a "CLIPModel", a captioner a "LlavaForConditionalGeneration".
    config = load_json(folder / "config.json")
    classes = config.get("architectures") if isinstance(config, dict) else None
    first = str(classes[0]) if isinstance(classes, list) and classes else ""
    return "hf_clip" if first.endswith("Model") else "hf"


def requests_of_model(folder: Path, overrides: Collection[str] = ()) -> list[Request]:
    """Return what the ``model.yaml`` of a folder asks for.

    Args:
        folder: The folder.
        overrides: Arguments that the user gave in place of the file's.
    """
    file = folder / ALIAS_FILE
    values = {key: _beside(value, folder) for key, value in load_yaml(file).items()}
    asked = requests_of(values, file, lambda *keys: ": ".join(map(str, (file, *keys))), [(name,) for name in overrides])
    return [*asked, *linked_outside(folder)]


def _beside(value: Any, folder: Path) -> Any:
    """Return the path of a file next to an alias file."""
    return str(folder / value) if isinstance(value, str) and value.startswith("./") else value


def _read_alias(name: str, values: Mapping[str, Any], folder: Path) -> ModelSpec:
    published = {
        paper: [names] if isinstance(names, str) else names for paper, names in values.get("published_as", {}).items()
    }
    described = {
        "description", "size", "source", "licence", "date", "adapter", "code", "printed_as", "published_as", "fetch"
    }  # fmt: skip
    fetched = values.get("fetch")
    hub_id = pretrained if _HUB_ID.fullmatch(pretrained := str(values.get("pretrained", ""))) else ""
    return ModelSpec(
        name,
        values["adapter"],
        {key: _beside(value, folder) for key, value in values.items() if key not in described},
        *(str(values.get(key, default)) for key, default in (("description", ""), ("size", ""), ("source", hub_id))),
        licence=str(values.get("licence") or (fetched or {}).get("licence", "")),
        date=str(values.get("date", "")),
        own_code=values.get("code") == "own",
        printed_as=values.get("printed_as", {}),
        published_as=published,
        fetch=FileSource.model_validate({"title": f"weights of {name}", **fetched}) if fetched else None,
    )

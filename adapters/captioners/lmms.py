"""Captions by the model classes of an installed lmms-eval or lm-eval."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...errors import AdapterError
from ..chat.messages import image_of
from ..checkpoint_identity import checkpoint_identity
from ..checkpoints import first_line
from ..contracts import Caption, Captioned, Captioner, CaptionRequest, stream_in_pieces
from ..devices import require_known
from ..images.reading import UnreadableImage, read_image

_PACKAGES = ("lmms_eval", "lm_eval")
_NO_MATTER = ("batch_size", "device", "device_map", "max_batch_size")
"""Arguments of models that change no caption beyond rounding."""


class LmmsCaptioner(Captioner):
    """Captions by a model class of lmms-eval or lm-eval, which must be installed.

    Args:
        model: The class's name in that package, such as ``llava_hf`` or ``hf-multimodal``.
        package: ``lmms_eval`` or ``lm_eval``.
        chat_template: Whether lm-eval applies the model's chat template; by default to models with images.
        name: How results call it; ``pretrained`` or ``model`` unless given.
        **arguments: Go to the class (``pretrained``, ``dtype``, ...). Code that comes with a checkpoint runs
            only with ``trust_remote_code=True``.

    Raises:
        AdapterError: The package, or the class, is missing, or the model cannot be loaded.
    """

    batch_size = 64

    def __init__(
        self,
        model: str,
        package: str = "lmms_eval",
        chat_template: bool | None = None,
        name: str | None = None,
        **arguments: Any,
    ) -> None:
        require_known(_PACKAGES, package=package)
        self.name = name or str(arguments.get("pretrained") or model)
        self.package = package
        self.model = model
        self.arguments = arguments
        try:
            self._version = version(package)
        except PackageNotFoundError as error:
            raise AdapterError(f"package {package} is not installed", f"pip install {package}") from error
        self._loaded = _load(package, model, arguments)
        sees = package == "lmms_eval" or bool(getattr(self._loaded, "MULTIMODAL", False))
        self._chat_template = sees if chat_template is None else chat_template
        self._sees = sees
        pretrained = str(arguments.get("pretrained", ""))
        # The package downloads weights from the hub, by the name and revision in the arguments.
        folder = pretrained and Path(pretrained).expanduser().is_dir()
        self._identity = checkpoint_identity(pretrained, None) if folder else {}

    def fingerprint(self) -> dict[str, Any]:
        """Return class, arguments and the package's version."""
        arguments = {key: value for key, value in self.arguments.items() if key not in _NO_MATTER}
        if self._identity:
            arguments.pop("pretrained")
        return {
            "adapter": "lmms",
            "package": self.package,
            "version": self._version,
            "model": self.model,
            "arguments": arguments,
            "chat_template": self._chat_template,
            **self._identity,
        }

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write the captions of all requests, batch by batch."""
        label = f"'{self.model}' of {self.package}"
        write = partial(self._captions, requests)
        return stream_in_pieces(requests, batch_size or self.batch_size, self._image, write, label)

    def _image(self, request: CaptionRequest) -> tuple[Any, str]:
        """Return the image of a request, None for none, and the remark on it."""
        handle = image_of(request)
        if handle is None:
            if self.package == "lmms_eval":
                raise UnreadableImage("has no image, which models of lmms_eval need")
            return None, ""
        if not self._sees:
            raise AdapterError(
                f"'{self.model}' of {self.package} does not take images", "Use one that does, such as hf-multimodal."
            )
        read = read_image(handle)
        return read.image.convert("RGB"), read.remark

    def _captions(
        self, requests: Sequence[CaptionRequest], images: Mapping[int, Any], asked: Sequence[int]
    ) -> list[Caption]:
        build = self._of_lmms_eval if self.package == "lmms_eval" else self._of_lm_eval
        captions: dict[int, Caption] = {}
        # A model that mixes requests with and without images is not known.
        for kind in (True, False):
            of_kind = [at for at in asked if (images[at] is not None) == kind]
            if of_kind:
                answers = self._loaded.generate_until(build([(requests[at], images[at]) for at in of_kind]))
                captions |= zip(of_kind, map(_caption, answers), strict=False)
        return [captions[at] for at in asked if at in captions]

    def _of_lm_eval(self, asked: Sequence[tuple[CaptionRequest, Any]]) -> list[Any]:
        from lm_eval.api.instance import Instance

        instances = []
        for number, (request, image) in enumerate(asked):
            # lm-eval's own sign for an image, which the chat template replaces.
            prompt = request.prompt if image is None else f"<image>{request.prompt}"
            if self._chat_template:
                prompt = self._loaded.apply_chat_template([{"role": "user", "content": prompt}])
            settings = {key: value for key, value in request.generation_kwargs.items() if value is not None}
            if "max_new_tokens" in settings:
                settings["max_gen_toks"] = settings.pop("max_new_tokens")
            visual = () if image is None else ({"visual": [image]},)
            instances.append(Instance("generate_until", {}, (prompt, settings, *visual), number))
        return instances

    def _of_lmms_eval(self, asked: Sequence[tuple[CaptionRequest, Any]]) -> list[Any]:
        api: Any = import_module("lmms_eval.api.instance")
        # Models look up the document by task, split and number, and ask a function for its image.
        self._loaded.task_dict["capbench"] = {"test": [image for _, image in asked]}
        instances = []
        for number, (request, _) in enumerate(asked):
            settings = {key: value for key, value in request.generation_kwargs.items() if value is not None}
            place = (number, "capbench", "test")
            arguments = (
                (request.prompt, settings, lambda image: [image], *place)
                if getattr(self._loaded, "is_simple", True)
                else (request.prompt, partial(_messages, request.prompt), settings, *place)
            )
            metadata = {"task": "capbench", "doc_id": number, "repeats": 1}
            instances.append(api.Instance("generate_until", arguments, number, metadata))
        return instances


def _load(package: str, model: str, arguments: Mapping[str, Any]) -> Any:
    place = "lmms_eval.models" if package == "lmms_eval" else "lm_eval.api.registry"
    try:
        build = import_module(place).get_model(model)
        if "trust_remote_code" in inspect.signature(build).parameters:
            # Some classes trust by default.
            arguments = {"trust_remote_code": False, **arguments}
        return build(**arguments)
    except Exception as error:
        # An unknown class, a missing package, wrong arguments, a damaged checkpoint.
        raise AdapterError(
            f"'{model}' of {package} cannot be loaded: {type(error).__name__}: {first_line(error)}",
            f"'{package.replace('_eval', '-eval')}' documents its models and their arguments.",
        ) from error


def _caption(answer: Any) -> Caption:
    """Return an answer, which newer classes of lmms-eval wrap with counts of tokens."""
    if isinstance(answer, str):
        return Caption(answer)
    counts = getattr(answer, "token_counts", None)
    return Caption(answer.text, getattr(counts, "output_tokens", None))


def _messages(prompt: str, image: Any) -> list[dict[str, Any]]:
    content = [{"type": "image", "url": image}, {"type": "text", "text": prompt}]
    return [{"role": "user", "content": content}]

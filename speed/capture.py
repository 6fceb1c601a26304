"""Time our FACTUAL parsing beside FactualSceneGraph's, on one checkpoint, and a second run from the cache.

Run by hand. The checkpoint is a T5 of the size of flan-t5-small with random weights unless one is named, so
that every sentence is written to the last of its tokens on both sides::

    python speed/capture.py --captions 20
    python speed/capture.py --checkpoint lizhuang144/flan-t5-base-VG-factual-sg --device cuda
"""

import argparse
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

from text_metrics import timed

from capbench.metrics import Context, NoCache
from capbench.metrics.capture.factual import FactualParser
from capbench.metrics.vectors.checkpoints import Checkpoint


class Memory(NoCache):
    """Keeps everything in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], object] = {}

    def get(self, producer: object, inputs: list[str]) -> dict[str, object]:
        """Return what is known."""
        return {one: self._kept[str(producer), one] for one in inputs if (str(producer), one) in self._kept}

    def put(self, producer: object, values: dict[str, object]) -> None:
        """Keep values."""
        self._kept.update({(str(producer), one): value for one, value in values.items()})


def main() -> None:
    """Print seconds and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=50, metavar="N")
    parser.add_argument("--checkpoint", metavar="NAME")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    captions = [caption.split(". ") for caption in long_captions()[: options.captions]]
    print(f"{len(captions)} captions, {sum(map(len, captions))} sentences")
    with tempfile.TemporaryDirectory() as folder:
        path = options.checkpoint or untrained(Path(folder))
        context = Context(cache=Memory())

        def ours() -> object:
            checkpoint = Checkpoint("the parser", "parser_model", path)
            return FactualParser(checkpoint, "0.7", options.device).graphs(captions, context)

        _, seconds = timed(ours)
        _, again = timed(ours)
        print(f"ours                {seconds:8.2f} s, second run {again:.3f} s")
        try:
            from factual_scene_graph.parser.scene_graph_parser import SceneGraphParser
        except ImportError:
            print("FactualSceneGraph is not installed")
            return
        released = SceneGraphParser(path, device=options.device)
        # Gone since transformers 5; it changes nothing for T5.
        released.tokenizer.__class__.as_target_tokenizer = lambda self: contextlib.nullcontext()

        def theirs() -> None:
            for sentences in captions:
                with contextlib.redirect_stderr(io.StringIO()):
                    released.parse(sentences, beam_size=5, max_output_len=128)

        _, released_seconds = timed(theirs)
        print(f"FactualSceneGraph   {released_seconds:8.2f} s: ours is {released_seconds / seconds:.1f} times as fast")


def long_captions() -> list[str]:
    """Return the human captions of ImageInWords if ``CAPBENCH_DATA`` is set, else those shipped."""
    root = os.environ.get("CAPBENCH_DATA")
    if root:
        lines = (Path(root) / "imageinwords/IIW-400/data.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["IIW"] for line in lines]
    shipped = Path(__file__).parents[1] / "adapters/models/iiw-p5b.jsonl"
    return [json.loads(line)["caption"] for line in shipped.read_text(encoding="utf-8").splitlines()]


def untrained(folder: Path) -> str:
    """Write a T5 of the size of flan-t5-small with random weights and a tokenizer of words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    words = sorted({word for caption in long_captions() for word in caption.split()})
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(["<pad>", "</s>", "<unk>", *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=32_128, d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    model.generation_config.suppress_tokens = [1]
    model.save_pretrained(folder)
    return str(folder)


if __name__ == "__main__":
    main()

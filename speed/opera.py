"""Measure what a token of OPERA costs against the way of its released code, in core-seconds and in memory.

The released way: in each step one pass of all beams and one for each candidate, each of which gives the attention of
all layers back, the square of the last layer's attention grown by a row, and the state of every step kept. It is
written out below, for a Llama with random weights whose instruction has an image's number of tokens; both write the
same tokens, in a process of their own each. Run by hand::

    python speed/opera.py
    python speed/opera.py --images 576 --tokens 128 --width 512
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch

BAR = 1 / 3
IMAGE, BEFORE, AFTER, BEAMS, CANDIDATES = 3, 8, 12, 5, 5
_NEVER = 10**6
"""A threshold that no caption passes: neither of the two returns."""


def llama(width: int, layers: int) -> Any:
    """Return a Llama with random weights of a fixed seed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=width // 32,
        vocab_size=1024, max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, pad_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.config.image_token_id = IMAGE
    # No caption ends before its last token.
    model.lm_head.weight.data[1] = 0
    model.lm_head.weight.data *= 20
    return model


def instruction(images: int) -> torch.Tensor:
    """Return ``[1, prompt]`` ids, so many of them an image's."""
    words = torch.randint(4, 1024, (BEFORE + AFTER,), generator=torch.Generator().manual_seed(0))
    image = torch.full((images,), IMAGE)
    return torch.cat([words[:BEFORE], image, words[BEFORE:]])[None]


@torch.inference_mode()
def released_way(model: Any, ids: torch.Tensor, images: int, tokens: int) -> list[int]:
    """Write a caption with all attentions, candidate by candidate."""
    from transformers import DynamicCache

    model.set_attn_implementation("eager")
    start, ids = ids.shape[1], ids.expand(BEAMS, -1)
    scores = torch.full((BEAMS,), -1e9)
    scores[0] = 0
    given, cache, square, states = ids, DynamicCache(), None, []
    for length in range(1, tokens + 1):
        found = model(input_ids=given, past_key_values=cache, use_cache=True, output_attentions=True)
        row = found.attentions[-1].amax(1)
        square = row if square is None else _grown(square, row)
        states.append((ids.clone(), square.clone(), scores.clone()))
        logits = found.logits[:, -1]
        likely = logits.topk(CANDIDATES)
        squares = []
        for number in range(CANDIDATES):
            one = model(
                input_ids=likely.indices[:, number, None], past_key_values=cache, use_cache=True, output_attentions=True
            )
            squares.append(_grown(square, one.attentions[-1].amax(1)))
            cache.crop(-1)
        whole = torch.stack(squares, 1)
        whole = whole / whole.sum(-1, keepdim=True)
        local = 50 * whole[:, :, start:, start:]
        trust = torch.stack([1e-7 * local[..., j:, j].prod(-1) for j in range(length)], -1).half()
        image = whole[:, :, -1, BEFORE : BEFORE + images].sum(-1)
        penalties = -image if length <= 10 else trust.amax(-1)
        spread = torch.full_like(logits, -999.0).scatter(-1, likely.indices, likely.values - penalties)
        totals = (spread.log_softmax(-1) + scores[:, None]).flatten().topk(BEAMS)
        parents, newest = totals.indices // logits.shape[1], totals.indices % logits.shape[1]
        scores, square = totals.values, square[parents]
        ids = torch.cat([ids[parents], newest[:, None]], 1)
        cache.reorder_cache(parents)
        given = newest[:, None]
    return ids[int(scores.argmax()), start:].tolist()


def _grown(square: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.nn.functional.pad(square, (0, 1)), row], -2)


@torch.inference_mode()
def our_way(model: Any, ids: torch.Tensor, tokens: int) -> list[int]:
    """Write a caption by the strategy."""
    from capbench.adapters.decoding.opera import Opera, OverTrust, searching

    strategy = Opera(tokens, BEAMS, OverTrust(threshold=_NEVER, candidates=CANDIDATES))

    def loop(model: Any, input_ids: torch.Tensor, **settings: Any) -> list[int]:
        with searching(strategy, model, input_ids, settings, {1}) as search:
            return search.run(tokens).ids

    return model.generate(input_ids=ids, max_new_tokens=tokens, do_sample=False, custom_generate=loop)


@dataclass(frozen=True)
class Cost:
    """What a caption took: core-seconds and bytes a token, and its tokens."""

    seconds: float
    held: float
    ids: list[int]


def one(way: str, images: int, tokens: int, width: int, layers: int) -> Cost:
    """Write a caption one way, in this process, after a short one."""
    torch.set_num_threads(1)
    model, ids = llama(width, layers), instruction(images)

    def write(length: int, asked: torch.Tensor, count: int) -> list[int]:
        return our_way(model, asked, length) if way == "ours" else released_way(model, asked, count, length)

    write(3, instruction(1), 1)
    before, start = _peak(), time.process_time()
    written = write(tokens, ids, images)
    return Cost((time.process_time() - start) / tokens, (_peak() - before) / tokens, written)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def measured(way: str, options: argparse.Namespace, images: int) -> Cost:
    """Do the same in a process of its own."""
    sizes = [str(one) for one in (images, options.tokens, options.width, options.layers)]
    done = subprocess.run([sys.executable, __file__, "--way", way, *sizes], check=True, capture_output=True, text=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print both for each size, and whether the bars are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[64, 576], help="image tokens (64 and 576)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of the caption (64)")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--way", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        way, *sizes = options.way
        print(json.dumps(vars(one(way, *map(int, sizes)))))
        return
    for images in options.images:
        ours, theirs = (measured(way, options, images) for way in ("ours", "released"))
        if ours.ids != theirs.ids:
            raise SystemExit(f"{images} image tokens: the captions are not the same")
        for what, mine, released, unit in (
            ("core-ms", 1e3 * ours.seconds, 1e3 * theirs.seconds, ""),
            ("memory", ours.held / 2**20, theirs.held / 2**20, " MiB"),
        ):
            ratio = mine / released
            print(
                f"{images} image tokens, {options.tokens} tokens, {what} a token: {mine:.2f}{unit}, the released way "
                f"{released:.2f}{unit}; ratio {ratio:.2f}, {'within' if ratio <= BAR else 'over'} the bar of {BAR:.2f}"
            )


if __name__ == "__main__":
    main()

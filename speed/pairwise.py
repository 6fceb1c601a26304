"""Time subcrop-caption matching by an encoder of image and text together against its forwards alone, in core-seconds.

Random weights of a small BLIP, the made scenes of ``shapes_dci_all_scm``, an empty store. The forwards alone: each crop
encoded once, its tokens repeated beside the captions of its block, padded to the longest of them; crops and token ids
lie in memory. Run by hand::

    python speed/pairwise.py
    python speed/pairwise.py --documents 20 --width 768 --layers 12 --side 384
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor

import capbench
from capbench.adapters.encoders.hf_pairs import BlipItm

BAR, BLOCK = 1.3, 8
_TOKENIZER = Path(__file__).parents[1] / "tests"


def write_blip(folder: Path, width: int, layers: int, side: int) -> Path:
    """Write a BLIP of some width, whose tokenizer knows letters."""
    import sys

    sys.path.insert(0, str(_TOKENIZER))
    from tiny_pairwise import make_tiny_blip

    make_tiny_blip(folder)
    tower = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    tower["num_attention_heads"] = width // 64
    known = len(AutoTokenizer.from_pretrained(folder))
    text = {"vocab_size": known + 2, "bos_token_id": known, "encoder_hidden_size": width, "sep_token_id": 3}
    torch.manual_seed(0)
    config = BlipConfig(
        text_config=tower | text | {"max_position_embeddings": 64, "pad_token_id": 0},
        vision_config=tower | {"image_size": side, "patch_size": 16},
    )
    BlipForImageTextRetrieval(config).save_pretrained(folder)
    BlipImageProcessor(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


def forwards(encoder: BlipItm, blocks: list[list[str]], side: int) -> float:
    """Return the core-seconds of a block's crops and pairs through the model, block by block."""
    model: Any = BlipForImageTextRetrieval.from_pretrained(encoder.name).eval()
    prepared = []
    for block in blocks:
        ids = [one[:34] + one[-1:] for one in encoder.token_ids(block)]
        longest = max(map(len, ids))
        rows = torch.tensor([[*one, *[0] * (longest - len(one))] for one in ids])
        prepared.append((torch.rand(len(block), 3, side, side), rows, (rows > 0).long()))
    start = time.process_time()
    with torch.inference_mode():
        for pixels, rows, mask in prepared:
            tokens = model.vision_model(pixel_values=pixels).last_hidden_state
            n = len(pixels)
            states = model.text_encoder(
                input_ids=rows.repeat(n, 1),
                attention_mask=mask.repeat(n, 1),
                encoder_hidden_states=tokens.repeat_interleave(n, dim=0),
            ).last_hidden_state
            model.itm_head(states[:, 0]).softmax(dim=-1)
    return time.process_time() - start


def main() -> None:
    """Print both, and whether the bar is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--side", type=int, default=224)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = write_blip(Path(name) / "blip", given.width, given.layers, given.side)
        encoder = BlipItm(str(folder), head="itm", device="cpu", workers=1)

        def run(store: str, limit: int) -> Any:
            task = "shapes_dci_all_scm"
            made = capbench.evaluate(
                encoder, task, limit=limit, resamples=0, store=Path(name) / store, skip_checks=True
            )
            return made[task]

        run("first", 1)
        start = time.process_time()
        made = run("second", given.documents)
        whole = time.process_time() - start
        captions = [row["candidates"][0] for row in made.samples.to_pylist() if row["failure"] is None]
        blocks = [captions[at : at + BLOCK] for at in range(0, len(captions), BLOCK)]
        alone = forwards(encoder, blocks, given.side)
    ratio = whole / alone
    print(f"{len(captions)} crops, {len(blocks)} blocks, core-seconds: forwards {alone:.1f}, all of it {whole:.1f}")
    print(f"ratio {ratio:.2f}, {'within' if ratio <= BAR else 'over'} the bar of {BAR}")


if __name__ == "__main__":
    main()

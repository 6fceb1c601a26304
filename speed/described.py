"""A small task of images that a model describes; its metric counts words, so that it costs nothing."""

from pathlib import Path

_TASK = """\
task: described
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: generate_until
doc_to_id: id
doc_to_text: Describe the image.
doc_to_image: image
doc_to_target: references
metric_list: [length]
metadata: {version: 1.0}
"""


def write_task(folder: Path) -> str:
    """Write the task file and return the task's name; ``rows.jsonl`` beside it has id, image and references."""
    (folder / "described.yaml").write_text(_TASK)
    return "described"

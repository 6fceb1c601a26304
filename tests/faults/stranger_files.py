"""Files that ask for nothing: a task, a pipeline, a recipe and a loop, each of which a stranger may change."""

from typing import Any

from task_keys import CAPTIONING

TASK: dict[str, Any] = {**CAPTIONING, "task": "strange", "doc_to_id": "id"}
PIPELINE: dict[str, Any] = {
    "pipeline": "strange",
    "models": {"captioner": {"name": "shapes-captioner"}},
    "stages": [
        {"stage": "caption", "prompt": "", "to": "further_captions", "generation_kwargs": {"max_new_tokens": 3}}
    ],
    "output": {"columns": {"captions": "further_captions"}},
}
RECIPE: dict[str, Any] = {
    "recipe": "strange",
    "data": {"file": "train.jsonl"},
    "model": {"name": "shapes-captioner"},
    "trainer": "captioner_xe",
    "objective": {"batch": 1, "tokens": 4},
    "lora": "none",
    "optimiser": {"rate": 0.001},
    "stop": {"steps": 1},
}
LOOP: dict[str, Any] = {
    "loop": "strange",
    "captioner": "shapes-captioner",
    "make": {"recipe": "pipeline.yaml", "data": "."},
    "train": {"recipe": "recipe.yaml"},
    "turns": 1,
    "judge": [{"task": "shapes_captions", "metrics": ["length"], "limit": 1}],
}

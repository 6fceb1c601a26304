from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from capbench.errors import TaskError
from capbench.tasks.schema import TaskConfig
from capbench.tasks.templates import DocumentError, compile_template

pytestmark = pytest.mark.usefixtures("functions_may_run")

MakeTask = Callable[..., TaskConfig]
TEMPLATES = yaml.safe_load(Path(__file__).with_name("templates.yaml").read_text(encoding="utf-8"))
DOCUMENT = {"image": "a.jpg", "subset": "8k", "rating": 3, "references": ["a dog", "a <b> & c"]}


@pytest.mark.parametrize(("key", "source", "value"), TEMPLATES["gives"])
def test_template_gives_the_value_of_its_expression_or_text(make_task: MakeTask, key: str, source: str, value: object):
    document = {**DOCUMENT, "by_rater": {"a": 1, "b": 2}, "number": 391895}
    rendered = compile_template(make_task(**{key: source}), key, document)(document)
    assert rendered == value
    assert type(rendered) is type(value)


def test_template_may_make_a_million_characters(make_task: MakeTask):
    get = compile_template(make_task(doc_to_text="{{ 'a' * 999999 }}b"), "doc_to_text", DOCUMENT)
    assert len(get(DOCUMENT)) == 1_000_000


def test_template_cannot_change_the_document(make_task: MakeTask):
    document = {"references": ["a dog"]}
    get = compile_template(make_task(doc_to_text="{{ references.append('x') }}"), "doc_to_text", document)
    with pytest.raises(DocumentError, match="doc_to_text cannot be rendered"):
        get(document)
    assert document == {"references": ["a dog"]}


def test_function_is_called_with_the_document_and_gives_the_reason_where_it_fails(
    make_task: MakeTask, write: Callable[..., Path]
):
    write("reader.py", "def double(doc): return doc['rating'] * 2\n")
    get = compile_template(make_task(tail="doc_to_human: !function reader.double\n"), "doc_to_human", DOCUMENT)
    assert get(DOCUMENT) == 6
    with pytest.raises(DocumentError, match=r"doc_to_human \(!function reader.double\) failed: KeyError: 'rating'"):
        get({})


def test_list_gives_a_list_of_what_each_element_gives(make_task: MakeTask, write: Callable[..., Path]):
    write("reader.py", "def constant(doc): return 'constant'\n")
    task = make_task(doc_to_target=None, tail="doc_to_target: [image, '{{subset}}!', !function reader.constant]\n")
    get = compile_template(task, "doc_to_target", DOCUMENT)
    assert get(DOCUMENT) == ["a.jpg", "8k!", "constant"]


def test_unknown_column_within_a_list_is_an_error(make_task: MakeTask):
    task = make_task(doc_to_target=["image", "sbset"])
    with pytest.raises(TaskError, match=r"no column 'sbset'\. Did you mean 'subset'"):
        compile_template(task, "doc_to_target", DOCUMENT)


def test_document_without_the_column_gives_the_reason(make_task: MakeTask):
    task = make_task(doc_to_target="references", doc_to_image="{{subset}}")
    with pytest.raises(DocumentError, match="has no column 'references'"):
        compile_template(task, "doc_to_target", DOCUMENT)({"image": "b.jpg"})
    with pytest.raises(DocumentError, match="doc_to_image cannot be rendered: 'subset' is undefined"):
        compile_template(task, "doc_to_image", DOCUMENT)({"image": "b.jpg"})


@pytest.mark.parametrize(
    "source",
    [
        "{{ open",
        "{% if %}",
        "{{ image | no_such_filter }}",
        "{% for x %}{{x}}",
        # Too long, and nested too deep.
        "{{ x }}" * 5000,
        "{{ " + "(" * 9000 + " }}",
        "{{ " + "-" * 9000 + "1 }}",
    ],
    ids=lambda source: source[:12],
)
def test_broken_jinja_is_an_error_before_any_document_is_read(make_task: MakeTask, source: str):
    with pytest.raises(TaskError, match="task 'mine': doc_to_text: not valid Jinja"):
        compile_template(make_task(doc_to_text=source), "doc_to_text", DOCUMENT)


@pytest.mark.parametrize(
    "source",
    [*TEMPLATES["fails"], "{% for i in range(99999) %}" + "text " * 3000 + "{% endfor %}"],
    ids=lambda source: source[:30],
)
def test_what_a_template_may_not_do_is_a_failure_of_its_document(make_task: MakeTask, source: str):
    get = compile_template(make_task(doc_to_text=source), "doc_to_text", DOCUMENT)
    with pytest.raises(DocumentError, match="doc_to_text cannot be rendered"):
        get(DOCUMENT)

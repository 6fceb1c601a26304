from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.errors import TaskError
from capbench.tasks.schema import TaskConfig
from capbench.tasks.templates import DocumentError, compile_template

MakeTask = Callable[..., TaskConfig]
DOCUMENT = {"image": "a.jpg", "subset": "8k", "rating": 3, "references": ["a dog", "a <b> & c"]}


def test_column_gives_the_value_as_it_is(make_task: MakeTask):
    get = compile_template(make_task(doc_to_target="references"), "doc_to_target", DOCUMENT)
    assert get(DOCUMENT) is DOCUMENT["references"]


def test_text_with_braces_is_jinja_over_the_columns(make_task: MakeTask):
    task = make_task(doc_to_image="{{subset}}/{{ image }}", doc_to_text="{% if rating > 2 %}good{% endif %}")
    assert compile_template(task, "doc_to_image", DOCUMENT)(DOCUMENT) == "8k/a.jpg"
    assert compile_template(task, "doc_to_text", DOCUMENT)(DOCUMENT) == "good"


def test_captions_are_not_escaped_as_html(make_task: MakeTask):
    get = compile_template(make_task(doc_to_target="{{references[1]}}"), "doc_to_target", DOCUMENT)
    assert get(DOCUMENT) == "a <b> & c"


def test_function_is_called_with_the_document(make_task: MakeTask, write: Callable[..., Path]):
    write("reader.py", "def double(doc): return doc['rating'] * 2\n")
    task = make_task(tail="doc_to_human: !function reader.double\n")
    assert compile_template(task, "doc_to_human", DOCUMENT)(DOCUMENT) == 6


def test_function_that_fails_on_a_document_gives_the_reason(make_task: MakeTask, write: Callable[..., Path]):
    write("reader.py", "def double(doc): return doc['rating'] * 2\n")
    get = compile_template(
        make_task(tail="doc_to_human: !function reader.double\n"), "doc_to_human", DOCUMENT
    )
    with pytest.raises(
        DocumentError, match=r"doc_to_human \(!function reader.double\) failed: KeyError: 'rating'"
    ):
        get({})


def test_list_gives_a_list_of_what_each_element_gives(make_task: MakeTask, write: Callable[..., Path]):
    write("reader.py", "def constant(doc): return 'constant'\n")
    task = make_task(
        doc_to_target=None, tail="doc_to_target: [image, '{{subset}}!', !function reader.constant]\n"
    )
    get = compile_template(task, "doc_to_target", DOCUMENT)
    assert get(DOCUMENT) == ["a.jpg", "8k!", "constant"]


def test_plain_text_is_an_instruction_to_a_captioner_and_nothing_else(make_task: MakeTask):
    task = make_task(doc_to_text="Describe this image.", doc_to_target="refrences")
    assert compile_template(task, "doc_to_text", DOCUMENT)(DOCUMENT) == "Describe this image."
    with pytest.raises(TaskError) as caught:
        compile_template(task, "doc_to_target", DOCUMENT)
    assert caught.value.message == (
        "task 'mine': doc_to_target: documents have no column 'refrences'. Did you mean 'references'?"
    )
    assert caught.value.hint.startswith("Columns: image, rating, references, subset.")


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
    "source", ["{{ open", "{% if %}", "{{ image | no_such_filter }}", "{% for x %}{{x}}"]
)
def test_broken_jinja_is_an_error_before_any_document_is_read(make_task: MakeTask, source: str):
    with pytest.raises(TaskError, match="task 'mine': doc_to_text: not valid Jinja"):
        compile_template(make_task(doc_to_text=source), "doc_to_text", DOCUMENT)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ image.__class__ }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.getcwd() }}",
        "{{ '{0.__class__.__mro__}'.format(image) }}",
        "{{ range(10 ** 9) | list }}",
    ],
)
def test_template_cannot_reach_beyond_the_document(make_task: MakeTask, source: str):
    get = compile_template(make_task(doc_to_text=source), "doc_to_text", DOCUMENT)
    with pytest.raises(DocumentError, match="doc_to_text cannot be rendered"):
        get(DOCUMENT)


@pytest.mark.parametrize("source", ["{{ image + 1 }}", "{{ 1 / (rating - 3) }}", "{{ rating() }}"])
def test_expression_that_fails_on_a_document_gives_the_reason(make_task: MakeTask, source: str):
    get = compile_template(make_task(doc_to_text=source), "doc_to_text", DOCUMENT)
    with pytest.raises(DocumentError, match="doc_to_text cannot be rendered"):
        get(DOCUMENT)

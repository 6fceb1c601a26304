from collections.abc import Callable

import pytest

from capbench import errors
from capbench.errors import BenchError, MetricError, TaskError, UsageError, counted, require_all


def test_what_is_counted_once_is_in_the_singular():
    numbers = (0, 1, 2, 1200, 1.0, 0.5, 2.0)
    assert [counted(number, "unit") for number in numbers] == [
        "0 units", "1 unit", "2 units", "1,200 units", "1 unit", "0.5 units", "2 units",
    ]  # fmt: skip


def test_wrong_usage_exits_with_2_failure_with_1_and_what_is_to_be_submitted_with_3():
    codes = {
        kind.__name__: kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, BenchError)
    }
    assert codes == {
        "BenchError": 1, "UsageError": 2, "TaskError": 2, "CodeError": 2, "DataError": 1,
        "MetricError": 1, "AdapterError": 1, "StoreError": 1, "ExecutorError": 1,
        "TrainingError": 1,
    }  # fmt: skip
    assert issubclass(TaskError, UsageError)


def test_all_checks_are_carried_out_and_said_as_one():
    def fails(message: str, hint: str) -> Callable[[], None]:
        def check() -> None:
            raise MetricError(message, hint)

        return check

    require_all(lambda: 1)
    check = fails("No jar.", "Get it.")
    with pytest.raises(MetricError) as caught:
        require_all(lambda: 1, check)
    assert caught.value.parts == (caught.value,)
    with pytest.raises(MetricError) as caught:
        require_all(lambda: require_all(check, fails("No Java.", "")), fails("No words.", "Read."))
    assert str(caught.value) == "No jar. No Java. No words.\nGet it.\nRead."
    assert [part.message for part in caught.value.parts] == ["No jar.", "No Java.", "No words."]

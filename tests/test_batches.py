from capbench.batches import grouped


def test_neighbours_are_together_up_to_the_most_and_what_is_larger_is_alone():
    assert list(grouped(["aa", "b", "cc", "dddd", "e", "", "ff"], len, 3)) == [
        ["aa", "b"],
        ["cc"],
        ["dddd"],
        ["e", "", "ff"],
    ]
    assert list(grouped([], len, 3)) == []

"""A load's names."""

from specdecode.experiment.workload import MOST_AT_A_TIME, Level


def test_names_in_cloudwatch_are_by_letter_in_the_order_of_loads() -> None:
    at_a_time = [1, 2, 8, 16, 128, MOST_AT_A_TIME]
    rates = [0.25, 0.5, 1.5, 2, 16, 100]
    for levels in ([Level(concurrency=each) for each in at_a_time], [Level(rate=each) for each in rates]):
        names = [level.sorted_name for level in levels]
        assert names == sorted(names) and len(set(names)) == len(levels)
    assert (Level(concurrency=8).sorted_name, Level(rate=0.5).sorted_name) == ("c0008", "r0000.5")
    assert (Level(concurrency=8).name, Level(rate=0.5).name) == ("c8", "r0.5"), "files keep theirs"

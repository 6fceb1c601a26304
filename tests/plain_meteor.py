"""METEOR's search path by path, as the jar does it: slow, and short enough to be seen through."""

from collections import Counter
from typing import NamedTuple

BEAM = 40


class Match(NamedTuple):
    start: int
    end: int
    candidate_start: int
    candidate_end: int
    matcher: int

    @property
    def weight(self) -> int:
        share = 1.0 if self.matcher == 0 else 0.5
        length, candidate_length = self.end - self.start, self.candidate_end - self.candidate_start
        return int(length * share) + int(candidate_length * share)

    @property
    def distance(self) -> int:
        return abs(self.start - self.candidate_start)


class Path(NamedTuple):
    weight: int
    chunks: int
    distance: int
    position: int
    last: int
    taken: tuple[Match, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        return -self.weight, self.chunks, self.distance

    @property
    def ended(self) -> tuple[int, int, int]:
        return -self.weight, self.chunks + (self.last != -1), self.distance


def search(pairs: list[Match], n_references: int) -> tuple[Match, ...]:
    """Return the matches of the best path."""
    covered = Counter(place for match in pairs for place in range(match.start, match.end))
    candidate_covered = Counter(place for match in pairs for place in range(match.candidate_start, match.candidate_end))
    paths = [Path(0, 0, 0, 0, -1, ())]
    for current in range(n_references):
        here = [match for match in pairs if match.start == current]
        alone = len(here) == 1 and {
            *(covered[place] for place in range(here[0].start, here[0].end)),
            *(candidate_covered[place] for place in range(here[0].candidate_start, here[0].candidate_end)),
        } == {1}
        longer = []
        for path in sorted(paths, key=lambda path: path.order)[:BEAM]:
            if path.position > current:
                longer.append(path)
                continue
            distance = path.distance
            for match in here:
                if any(
                    match.candidate_start < other.candidate_end and other.candidate_start < match.candidate_end
                    for other in path.taken
                ):
                    continue
                breaks = path.last not in (-1, match.candidate_start)
                longer.append(
                    Path(
                        path.weight + match.weight,
                        path.chunks + breaks,
                        distance + match.distance * alone,
                        match.end,
                        match.candidate_end,
                        (*path.taken, match),
                    )
                )
                # The jar's slip: the matches that follow, and the path without any, bear the distance.
                distance += match.distance
            if not alone:
                longer.append(Path(path.weight, path.chunks + (path.last != -1), distance, current + 1, -1, path.taken))
        paths = longer
    return min(sorted(paths, key=lambda path: path.order)[:BEAM], key=lambda path: path.ended).taken

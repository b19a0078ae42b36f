"""Find parts of the names of videos that may be persons, cameras or recordings."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..datasets.lists import SPLITS
from ..datasets.sampling import evenly_spaced
from ..evaluation.labelled import split_in_folds, unfitted

MIN_GROUPS, MAX_GROUPS = 3, 50
LARGEST_SHARE = 0.6  # of one group among the videos
MIXED_SHARE = 0.8  # of the videos: in groups of several classes
MIN_PER_GROUP = 1.5  # videos of a class in a group, on average; fewer if they are counted
# Words before a number, of which a group may have one video per class
USUAL = (
    *('person', 'subject', 'subj', 'sub', 'actor', 'user', 'participant', 'patient', 'animal'),
    *('camera', 'cam', 'session', 'day', 'site', 'room', 'scene', 'recording', 'group'),
)
DATE = '((?:19|20)[0-9]{2}[-_]?[01][0-9][-_]?[0-3][0-9])'
PART, END = '[^-_. /]+', '[^/]*$'  # between separators in the name of a file
MAX_PARTS, MAX_FOLDERS = 8, 4
MAX_COMPARED = 1000  # videos, for time


def find_groups(names: Sequence[str], labels: Sequence[int] = ()) -> dict[str, list[str]]:
    """Find patterns that divide videos into groups which may be persons or recordings.

    These are folders between class and file, dates, numbers after a word or letter such as
    ``person2``, ``cam_04`` and ``_s1_``, and parts between separators. They occur in all names and
    in several classes, and divide the videos into 3 to 50 groups. Numbers that count the videos of
    each class are no groups, unless a usual word such as ``person`` is before them.

    Args:
        names: Names of the videos, with '/' as separator of folders.
        labels: Their classes; empty if there are none.

    Returns:
        The group of each video by pattern, a regular expression with one group. Of several patterns
        that divide the videos alike, the first one is returned.
    """
    found: dict[str, list[str]] = {}
    divisions = set()
    for pattern, is_usual in _patterns(names):
        matches = [re.search(pattern, name) for name in names]
        groups = [match[1] for match in matches if match]
        if {group.lower() for group in groups} <= {*SPLITS}:
            continue
        places = {group: n for n, group in reversed([*enumerate(groups)])}
        division = tuple(places[group] for group in groups)
        if len(groups) < len(names) or division in divisions:
            continue
        divisions.add(division)
        if _divides(groups, labels or [0] * len(names), is_usual):
            found[pattern] = groups
    return found


def _patterns(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield patterns that match in the first name, and whether a usual word is in them."""
    for depth in range(MAX_FOLDERS):
        yield f'^{"[^/]+/" * depth}([^/]+)/', False
    yield DATE, False
    *_, stem = names[0].rpartition('/')
    start = '/' if all('/' in name for name in names) else '(?:^|/)'
    for match in re.finditer(r'([A-Za-z]+)([-_ ]?)[0-9]+', stem):
        word, between = match[1], match[2]
        before = stem[match.start() - 1] if match.start() else ''
        before = re.escape(before) if before else start
        if before.isdigit():  # as in S001C002P003
            before = ''
        yield f'{before}{word}{re.escape(between)}([0-9]+)', word.lower() in USUAL
    for place in range(MAX_PARTS):
        yield f'{start}(?:{PART}[-_. ]){{{place}}}({PART}){END}', False


def _divides(groups: Sequence[str], labels: Sequence[int], is_usual: bool) -> bool:
    """Return whether groups may be persons or recordings."""
    number, total = Counter(groups), len(groups)
    if not MIN_GROUPS <= len(number) <= MAX_GROUPS or max(number.values()) > LARGEST_SHARE * total:
        return False
    cells = Counter(zip(groups, labels, strict=True))
    if total < MIN_PER_GROUP * len(cells) and not is_usual and all(map(str.isdigit, groups)):
        return False
    if len({*labels}) == 1:  # there are no classes
        return True
    classes = defaultdict(set)
    for group, label in cells:
        classes[group].add(label)
    mixed = sum(number[group] for group, inside in classes.items() if len(inside) > 1)
    if mixed < MIXED_SHARE * total or min(Counter(label for _, label in cells).values()) < 2:
        return False
    targets = torch.tensor(labels)
    return not any(unfitted(targets, *fold) for fold in split_in_folds(targets, groups))


def same_group(
    feats: Tensor, groups: Sequence[str], labels: Sequence[int] = ()
) -> tuple[float, float]:
    """Return the share of videos whose nearest neighbour is of their group, and that of chance.

    Args:
        feats: Features, (V, C); at most 1,000 evenly spaced ones are compared.
        groups: The group of each video.
        labels: Class of each video, if there are classes. Videos of the same class and group, such
            as takes of one action by one person, are then no neighbours.
    """
    chosen = evenly_spaced(len(groups), MAX_COMPARED)
    numbers = _numbered([groups[i] for i in chosen])
    is_same, excluded = numbers[:, None] == numbers, torch.eye(len(chosen), dtype=torch.bool)
    if labels:
        classes = torch.tensor(labels)[chosen]
        excluded |= is_same & (classes[:, None] == classes)
    hits = numbers[_nearest(feats[chosen], excluded)] == numbers
    level = (is_same & ~excluded).sum(1) / (~excluded).sum(1)
    return hits.double().mean().item(), level.double().mean().item()


def likely_groups(
    names: Sequence[str], labels: Sequence[int], before: Tensor, feats: Tensor
) -> tuple[str, list[str]] | None:
    """Choose one of the patterns that :func:`find_groups` finds.

    Args:
        names: Names of the videos.
        labels: Their classes; empty if there are none.
        before: Features of an encoder before a training, (V, C); at most 1,000 evenly spaced ones
            are compared.
        feats: Features after it, likewise.

    Returns:
        The pattern with which the nearest neighbour of another group is of the same class least
        often before the training, or without classes, with which the nearest neighbours are of the
        same group most often after it; and the group of each video. None if there are no groups.
    """
    found, chosen = find_groups(names, labels), evenly_spaced(len(names), MAX_COMPARED)
    if not found:
        return None
    classes = torch.tensor(labels)[chosen] if labels else None

    def fitness(pattern: str) -> float:
        if classes is None:
            share, by_chance = same_group(feats, found[pattern])
            return share - by_chance
        numbers = _numbered([found[pattern][i] for i in chosen])
        nearest = _nearest(before[chosen], numbers[:, None] == numbers)
        return -(classes[nearest] == classes).double().mean().item()

    pattern = max(found, key=fitness)
    return pattern, found[pattern]


def _numbered(groups: Sequence[str]) -> Tensor:
    return torch.tensor([*map(sorted({*groups}).index, groups)])


def _nearest(feats: Tensor, excluded: Tensor) -> Tensor:
    """Return the index of the nearest of the features that are not excluded, (V,)."""
    unit = F.normalize(feats, dim=1)
    return (unit @ unit.T).masked_fill(excluded, -torch.inf).argmax(1)

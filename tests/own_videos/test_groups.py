"""Parts of names that may be persons or recordings."""

import re

import pytest
import torch

from cvrl_mm.own_videos.groups import find_groups, likely_groups, same_group

PEOPLE = 'anna', 'ben', 'cleo', 'dan'


def made(form: str, classes: int = 3, groups: int = 6, each: int = 4) -> list[str]:
    return [
        form.format(c=c, g=g, i=i, n=classes * g + c, who=PEOPLE[g % 4])
        for c in range(classes)
        for g in range(1, groups + 1)
        for i in range(each)
    ]


def classes_of(names: list[str]) -> list[int]:
    return [int(re.search('c([0-9])', name)[1]) for name in names]


@pytest.mark.parametrize(
    ('form', 'number', 'example'),
    [
        ('c{c}/a{c}_s{g}_t{i}.mp4', 6, '_s([0-9]+)'),
        ('c{c}/v_Class{c}_g{g:02d}_c{i:02d}.avi', 6, '_g([0-9]+)'),
        ('c{c}/person{g:02d}_c{c}_d{i}.avi', 6, '/person([0-9]+)'),
        ('c{c}/cam_{g:02d}-{i:04d}.mp4', 6, '/cam_([0-9]+)'),
        ('c{c}/S001C002P{g:03d}R{i:03d}A{c:03d}.avi', 6, 'P([0-9]+)'),
        ('c{c}/2026-03-{g:02d}_{i}.mp4', 6, None),
        ('c{c}/person {g}/{i}.mp4', 6, None),
        ('train/c{c}/{who}/{i}.mp4', 4, None),
        ('c{c}/{who}_c{c}_{i}.mp4', 4, None),
        ('c{c}_s{g}_{i}.mp4', 6, '_s([0-9]+)'),  # without folders
    ],
)
def test_groups_in_names(form: str, number: int, example: str | None):
    names = made(form)
    found = find_groups(names, classes_of(names))
    assert example is None or example in found
    assert number in [len({*groups}) for groups in found.values()]
    for pattern, groups in found.items():  # as cvrl probe --groups takes them
        assert [re.search(pattern, name)[1] for name in names] == groups


@pytest.mark.parametrize(
    'form',
    [
        'c{c}/{g}{i}.mp4',  # counted
        'c{c}/clip_{g}{i}.mp4',
        'c{c}/{n}a{g}{i}.mp4',  # in one class each
        'c{c}/s{c}_{g}{i}.mp4',
        'c{c}/clip.mp4',
    ],
)
def test_names_without_groups(form: str):
    names = made(form)
    assert not find_groups(names, classes_of(names))


def test_splits_are_no_groups():
    names = [name for split in ('train', 'val', 'test') for name in made(split + '/c{c}/{n}.mp4')]
    assert not find_groups(names, classes_of(names))


def test_one_video_of_a_person_and_class_needs_a_word():
    for form, is_group in (('c{c}/person{g}.mp4', True), ('c{c}/{g}.mp4', False)):
        names = made(form, each=1)
        assert bool(find_groups(names, classes_of(names))) == is_group


def test_few_many_and_unequal_groups_are_none():
    for groups in (2, 51):
        names = made('c{c}/s{g}_{i}.mp4', groups=groups)
        assert '/s([0-9]+)' not in find_groups(names, classes_of(names))
    names = made('c{c}/s{g}_{i}.mp4', groups=3, each=2) + made('c{c}/s9_{g}{i}.mp4')
    assert '/s([0-9]+)' not in find_groups(names, classes_of(names))


def test_the_part_that_matters_is_chosen():
    """Videos of one person are alike, and those of one take are not."""
    names = made('c{c}/s{g}_t{i}.mp4')
    labels, found = classes_of(names), find_groups(names, classes_of(names))
    assert [*found] == ['/s([0-9]+)', '_t([0-9]+)']
    persons = torch.tensor([int(group) for group in found['/s([0-9]+)']])
    feats = torch.cat(
        [torch.eye(7)[persons], 0.5 * torch.eye(21)[3 * persons + torch.tensor(labels)]], 1
    )
    for known in (labels, []):
        assert likely_groups(names, known, feats, feats)[0] == '/s([0-9]+)'
    groups = found['/s([0-9]+)']
    assert same_group(feats, groups) == (1, pytest.approx(11 / 71))
    takes = torch.eye(21)[3 * persons + torch.tensor(labels)]  # alike, but no person is
    assert same_group(takes, groups, labels)[0] < 0.5
    assert likely_groups(['a.mp4'] * len(feats), labels, feats, feats) is None


def test_without_classes_cameras_are_found():
    names = made('clips/cam{g}_{i:03d}.mp4', classes=1, each=10)
    assert '/cam([0-9]+)' in find_groups(names)

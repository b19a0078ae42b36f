from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mmaction.datasets import AVADataset

from cvrl_mm.datasets.seeding import SampleIndex
from cvrl_mm.detection import AVAKeyframeDataset, AVAKeyframeMetric
from cvrl_mm.detection.annotations import save_proposals
from tests.videos import encode

FPS, SECONDS = 30, 4
MOVIES = [f'm{i}' for i in range(3)]
BOX, OTHER = (0.1, 0.2, 0.4, 0.9), (0.5, 0.1, 0.8, 0.7)


def row(movie: str, second: int, box: tuple = BOX, action: int = 1, person: int = 0) -> str:
    return f'{movie},{second:04d},' + ','.join(map(str, box)) + f',{action},{person}'


ROWS = [
    row('m0', 901),
    row('m0', 901, action=3),
    row('m0', 901, OTHER, 2, 1),
    row('m1', 902),
    row('m2', 900),
]
SURE, DOUBTFUL = (*BOX, 0.95), (*OTHER, 0.3)


@pytest.fixture(scope='module')
def movies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('movies')
    (root / 'videos').mkdir()
    for movie in MOVIES:
        (root / 'frames' / movie).mkdir(parents=True)
        encode(root / 'videos' / f'{movie}.mp4', num_frames=SECONDS * FPS)
        for i in range(SECONDS * FPS):
            (root / 'frames' / movie / f'img_{i + 1:05}.jpg').touch()
    return root


Builder = Callable[..., AVAKeyframeDataset]


@pytest.fixture
def build(tmp_path: Path, movies: Path) -> Builder:
    def call(rows: list = ROWS, proposals=None, cls=AVAKeyframeDataset, **kwargs) -> AVADataset:
        (tmp_path / 'rows.csv').write_text('\n'.join(rows))
        if proposals is not None:
            save_proposals(proposals, tmp_path / 'p.pkl')
            kwargs['proposal_file'] = str(tmp_path / 'p.pkl')
        settings = dict(
            ann_file=str(tmp_path / 'rows.csv'),
            pipeline=[],
            num_classes=4,
            fps=FPS,
            data_prefix=dict(img=str(movies / 'frames')),
        )
        return cls(**{**settings, **kwargs})

    return call


def keys(data: AVAKeyframeDataset) -> list[str]:
    return [data.get_data_info(i)['img_key'] for i in range(len(data))]


def test_a_sound_set_is_what_the_stock_dataset_reads(build: Builder):
    proposals = {
        'm0,0901': np.array([SURE, DOUBTFUL]),
        'm1,0902': np.array([SURE, SURE]),
        'm2,0900': np.array([SURE]),
    }
    ours, stock = (build(proposals=proposals, cls=c) for c in (AVAKeyframeDataset, AVADataset))
    assert len(ours) == len(stock) == 3
    for i in range(3):
        mine, theirs = ours.get_data_info(i), stock.get_data_info(i)
        for key in ('frame_dir', 'timestamp', 'img_key', 'fps', 'start_index', 'filename_tmpl'):
            assert mine[key] == theirs[key], key
        for key in ('gt_bboxes', 'gt_labels', 'entity_ids', 'proposals'):
            np.testing.assert_allclose(mine[key], theirs[key], rtol=1e-6)


def test_videos_are_found_by_name(build: Builder, movies: Path):
    data = build(use_frames=False, data_prefix=dict(img=str(movies / 'videos')))
    info = data.get_data_info(0)
    assert info['filename'] == str(movies / 'videos' / 'm0.mp4')
    assert info['timestamp_start'] == 900 and 'frame_dir' not in info
    # clips do not reach behind the last frame
    assert info['shot_info'] == build().get_data_info(0)['shot_info'] == (0, SECONDS * FPS)


@pytest.mark.parametrize('use_frames', [True, False])
def test_seconds_outside_the_movie_are_left_out_and_counted(
    build: Builder, movies: Path, use_frames: bool
):
    rows = [*ROWS, row('m0', 903), row('m0', 904), row('m1', 1700), row('m1', 899)]
    folder = movies / ('frames' if use_frames else 'videos')
    data = build(rows, use_frames=use_frames, data_prefix=dict(img=str(folder)))
    assert keys(data) == ['m0,0901', 'm1,0902', 'm2,0900', 'm0,0903']
    assert data.left_out.total() == 3


def test_boxes_are_cut_or_left_out_and_counted(build: Builder):
    rows = [
        row('m0', 901, (-0.01, 0.5, 0.3, 1.01)),
        row('m0', 901, (1.0, 0.2, 1.01, 0.4), person=1),
        row('m0', 902, (0.4, 0.2, 0.4, 0.4)),
    ]
    data = build(rows)
    assert keys(data) == ['m0,0901']
    assert data.get_data_info(0)['gt_bboxes'].tolist() == [[0, 0.5, 0.3, 1]]
    assert sorted(data.left_out.values()) == [1, 2]  # a key frame and single boxes


def test_key_frames_without_proposals(build: Builder):
    proposals = {'m0,0901': np.array([SURE]), 'm1,0902': np.zeros((0, 5)), 'm2,0900': [DOUBTFUL]}
    data = build(proposals=proposals)  # training takes their annotated boxes alone
    assert [data.get_data_info(i)['proposals'].shape for i in range(3)] == [(1, 4), (0, 4), (0, 4)]
    data = build(proposals=proposals, test_mode=True)
    assert keys(data) == ['m0,0901', 'm2,0900'] and data.left_out.total() == 1


def test_testing_takes_every_second_of_the_benchmark(build: Builder, tmp_path: Path):
    (tmp_path / 'excluded.csv').write_text('m1,0902\nm9,0902\n')
    settings = dict(exclude_file=str(tmp_path / 'excluded.csv'), key_seconds=(901, 903))
    everything = {f'{movie},{second:04d}' for movie in MOVIES for second in (901, 902, 903)}
    data = build(**settings, test_mode=True)
    # m2,0900 lies outside the range but is annotated
    assert {*keys(data)} == everything - {'m1,0902'} | {'m2,0900'} and data.left_out.total() == 1
    (bare,) = (i for i, key in enumerate(keys(data)) if key == 'm0,0903')
    info = data.get_data_info(bare)
    assert (info['gt_bboxes'].shape, info['gt_labels'].shape) == ((0, 4), (0, 4))
    assert keys(build(**settings)) == ['m0,0901', 'm2,0900']  # training: annotated ones
    assert keys(build(test_mode=True)) == ['m0,0901', 'm1,0902', 'm2,0900']


def test_custom_classes_are_numbered_anew(build: Builder, tmp_path: Path):
    names = ''.join(f'item {{\n  name: "a{i}"\n  id: {i}\n}}\n' for i in (1, 2, 3))
    (tmp_path / 'names.pbtxt').write_text(names)
    labels = str(tmp_path / 'names.pbtxt')
    settings = dict(custom_classes=[2, 3], num_classes=3, label_file=labels)
    data = build(**settings)
    assert keys(data) == ['m0,0901']
    metric = dict(ann_file='', exclude_file='', label_file=labels)
    for classes, num_classes in ((None, 3), ([3, 2], 3), ([2, 3], 81)):
        evaluator = AVAKeyframeMetric(**metric, custom_classes=classes, num_classes=num_classes)
        with pytest.raises(ValueError, match='classes='):
            evaluator.dataset_meta = data.metainfo
    AVAKeyframeMetric(**metric, custom_classes=[2, 3], num_classes=3).dataset_meta = data.metainfo
    tested = build(**settings, test_mode=True, key_seconds=(901, 901))
    assert keys(tested) == [f'{movie},0901' for movie in MOVIES]
    assert data.get_data_info(0)['gt_labels'].tolist() == [[0, 0, 1], [0, 1, 0]]


def test_a_few_missing_movies_are_left_out_and_counted(build: Builder, movies: Path):
    copies = [f'copy{i}' for i in range(20)]
    for movie in copies:
        (movies / 'frames' / movie).symlink_to('m0')
    data = build([row(m, 901) for m in (*copies, 'gone')])
    assert len(data) == 20 and data.left_out.total() == 1


@pytest.mark.parametrize(
    ('settings', 'error', 'named'),
    [
        (dict(rows=[row('m0', 901, action=4)]), ValueError, 'rows.csv.*action=4'),
        (dict(rows=[row('m0', 901), row('gone', 901)]), FileNotFoundError, 'gone'),
        (dict(use_frames=False, data_prefix=dict(img='/nowhere')), FileNotFoundError, '/nowhere'),
        (dict(rows=[row('m0', 1000)]), ValueError, 'timestamp_start'),
        (dict(proposals={'m9,0901': np.array([SURE])}), ValueError, 'm9,0901'),
    ],
)
def test_mistakes_are_named(build: Builder, settings: dict, error: type, named: str):
    with pytest.raises(error, match=named):
        build(**settings)


def test_draws_depend_on_seed_epoch_and_index_alone(build: Builder):
    def draw(results: dict) -> dict | None:  # half of the clips have nobody left in their crop
        kept = np.random.rand() < 0.5
        return dict(key=results['img_key'], draw=np.random.rand()) if kept else None

    data = build(pipeline=[draw])
    order = [SampleIndex(i, seed=0, epoch=e) for e in range(8) for i in range(len(data))]
    samples = [data[i] for i in order]
    np.random.seed(7)
    assert [data[i] for i in reversed(order)] == samples[::-1]
    assert len({s['draw'] for s in samples}) == len(order)
    assert any(
        s['key'] != data.get_data_info(i)['img_key'] for i, s in zip(order, samples, strict=True)
    )

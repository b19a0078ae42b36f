"""Features of many videos: the loop, the store, and files of features."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.evaluation import features
from cvrl_mm.evaluation.clips import VideoClips, batches_of
from cvrl_mm.evaluation.features import Features, FeatureStore, extract, join_features, over_time
from cvrl_mm.evaluation.files import (
    check_features_path,
    extract_over_time,
    extract_to_file,
    write_features,
)
from cvrl_mm.synthetic.motion import encode as encode_frames
from tests.videos import encode, turn

NUM_VIDEOS = 11
BROKEN = (3, 7)


class Videos(Dataset):
    """Two clips of one pixel that hold the number of the video; some videos cannot be read."""

    def __len__(self) -> int:
        return NUM_VIDEOS

    def __getitem__(self, index: int) -> dict:
        about = dict(index=index, path=f'{index}.mp4')
        if index in BROKEN:
            return dict(about, error=f'broken \udce4 {index}')
        clips = torch.full((2, 1, 1, 1, 1), index) + torch.arange(2).view(2, 1, 1, 1, 1) / 2
        return dict(about, inputs=clips, label=index % 3)


class Encode:
    """The value of a pixel; fails at the ``fail_at``-th call."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[int] = []
        self.calls, self.fail_at = 0, fail_at

    def __call__(self, clips: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        self.seen += clips[::2].flatten().int().tolist()
        return clips.flatten(1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(features, 'BLOCK_VIDEOS', 4)


def fill(folder: Path, rank: int = 0, size: int = 1, num_workers: int = 0, encode=None) -> Encode:
    store, encode = FeatureStore(folder, dict(weights='a')), encode or Encode()
    store.fill(encode, Videos(), 2, num_workers, rank, size, average=False)
    return encode


def load(folder: Path) -> Features:
    return FeatureStore(folder, dict(num_videos=NUM_VIDEOS)).load()


def check(found: Features) -> None:
    readable = [i for i in range(NUM_VIDEOS) if i not in BROKEN]
    assert found.indices.tolist() == readable
    assert found.labels.tolist() == [i % 3 for i in readable]
    assert found.feats.flatten(1).tolist() == [[i, i + 0.5] for i in readable]
    assert found.errors == {i: f'broken \udce4 {i}' for i in BROKEN}


@pytest.mark.parametrize(('size', 'num_workers'), [(1, 0), (1, 2), (3, 0), (20, 0)])
def test_features_are_those_of_the_list_for_any_number_of_ranks(
    tmp_path: Path, size: int, num_workers: int
):
    for rank in reversed(range(size)):
        fill(tmp_path / 'store', rank, size, num_workers)
    check(load(tmp_path / 'store'))


@pytest.mark.parametrize(('fail_at', 'size'), [(2, 3), (6, 1)])
def test_a_killed_job_continues_also_with_another_number_of_ranks(
    tmp_path: Path, fail_at: int, size: int
):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, encode=Encode(fail_at))
    with pytest.raises(FileNotFoundError):
        load(tmp_path)
    again = [i for rank in range(size) for i in fill(tmp_path, rank, size).seen]
    finished = 2 * (fail_at - 1)  # also of an unfinished block
    assert sorted(again) == [i for i in range(finished, NUM_VIDEOS) if i not in BROKEN]
    check(load(tmp_path))
    assert fill(tmp_path).seen == []


def test_means_over_clips_and_half_precision():
    parts = extract(Encode(), batches_of(Videos(), 3), average=True, dtype=torch.float16)
    found = join_features(parts)
    assert found.feats.dtype == torch.float16 and found.feats.shape == (9, 1, 1)
    assert found.vectors[1].tolist() == [1.25] and list(found.errors) == [3, 7]
    assert len(join_features([])) == 0


def test_features_that_are_not_finite_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r'mp4 are not finite'):
        fill(tmp_path, encode=lambda x: torch.where(x == 5, torch.inf, x).flatten(1))
    assert fill(tmp_path).seen[0] == 4  # those before are kept


def test_a_video_that_one_of_two_processes_read_counts_once():
    read = Features(torch.zeros(1, 1, 1), torch.tensor([0]), torch.tensor([2]))
    found = join_features([Features(errors={2: 'busy', 1: 'broken'}), read, read])
    assert len(found) == 2 and found.errors == {1: 'broken'}


def test_files_hold_names_and_features(tmp_path: Path, monkeypatch):
    feats = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    names = ['ü b.mp4', os.fsdecode(b'zw\xf6lf.mp4')]
    write_features(tmp_path / 'feats.npz', names, feats)
    data = np.load(tmp_path / 'feats.npz', allow_pickle=False)
    assert data['names'].tolist() == names
    np.testing.assert_array_equal(data['feats'], feats)
    monkeypatch.setitem(sys.modules, 'pyarrow.parquet', None)
    for name, error in (('f.csv', ValueError), ('f.parquet', ImportError)):
        with pytest.raises(error, match=rf'{name}|pyarrow'):
            write_features(tmp_path / name, names, feats)
    monkeypatch.undo()
    parquet = pytest.importorskip('pyarrow.parquet')
    with pytest.raises(ValueError, match=r'zw.*parquet'):  # also before they are computed
        check_features_path(tmp_path / 'feats.parquet', names)
    write_features(tmp_path / 'feats.parquet', names[:1], feats[:1])
    table = parquet.read_table(tmp_path / 'feats.parquet')
    assert table['name'].to_pylist() == names[:1]
    np.testing.assert_array_equal(np.stack(table['feat'].to_numpy()), feats[:1])


# -- video files ------------------------------------------------------------------------------


class Means(torch.nn.Module):
    """A backbone whose features are mean colours; fails at the ``fail_at``-th call."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.weight, self.fail_at = torch.nn.Parameter(torch.ones(())), fail_at
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        return x.mean((2, 3, 4)) * self.weight


def mean_encoder(fail_at: int | None = None, **meta: object) -> Encoder:
    return Encoder(Means(fail_at), ClipInput(2, 1, 16), meta).eval()


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp('videos')
    for i in range(6):
        encode(folder / f'{i}.mp4', num_frames=3 + i, size=(32, 16))
    return [str(path) for path in sorted(folder.iterdir())]


def run(videos: list[str], out: Path, **change) -> dict[str, str] | None:
    settings = dict(num_clips=2, num_workers=0) | change
    return extract_to_file(settings.pop('encoder', mean_encoder()), videos, out, **settings)


def check_file(out: Path, videos: list[str]) -> None:
    clips, encoder = VideoClips(videos, ClipInput(2, 1, 16), 2), mean_encoder()
    expected = [encoder.features(clips[i]['inputs']).mean(0) for i in range(len(videos))]
    data = np.load(out)
    assert data['names'].tolist() == videos
    np.testing.assert_allclose(data['feats'], np.stack(expected), rtol=1e-5)
    assert not out.with_name(f'{out.name}.parts').exists()


def test_unreadable_videos_cost_no_other(videos: list[str], tmp_path: Path):
    encode(tmp_path / 'whole.avi', num_frames=40)
    (tmp_path / 'cut.avi').write_bytes((tmp_path / 'whole.avi').read_bytes()[:300])
    os.mkfifo(tmp_path / 'pipe.mp4')
    bad = [str(tmp_path / name) for name in ('cut.avi', 'pipe.mp4', 'gone.mp4')]
    failed = run([bad[0], *videos[:3], *bad[1:], *videos[3:]], tmp_path / 'feats.npz')
    assert failed is not None and list(failed) == bad
    assert all(failed.values()) and not any('\n' in reason for reason in failed.values())
    check_file(tmp_path / 'feats.npz', videos)
    with pytest.raises(ValueError, match=r'None of the videos .* .*gone\.mp4'):
        run([bad[2]], tmp_path / 'none.npz')
    assert not list(tmp_path.glob('none*'))


def test_the_last_process_joins_also_after_one_was_interrupted(videos: list[str], tmp_path: Path):
    out = tmp_path / 'feats.npz'
    assert run(videos, out, rank=0, size=2) is None
    with pytest.raises(KeyboardInterrupt):
        run(videos, out, rank=1, size=2, batch_size=1, encoder=mean_encoder(fail_at=2))
    assert run(videos, out, rank=0, size=2) is None and not out.exists()
    last = mean_encoder()
    assert run(videos, out, rank=1, size=2, batch_size=1, encoder=last) == {}
    assert last.backbone.calls == 2  # one of three was done
    check_file(out, videos)


def test_features_of_other_encoders_clips_or_files_are_not_mixed_in(tmp_path: Path):
    paths = [str(tmp_path / f'{i}.mp4') for i in range(3)]
    encode(Path(paths[0]), num_frames=3, size=(32, 16))
    out = tmp_path / 'feats.npz'
    run(paths[:2], out, size=3, encoder=mean_encoder(backbone=dict(padding='symmetric')))
    for named, given, change in (
        ('backbone', paths[:2], {}),  # equal weights of another architecture
        ('num_clips', paths[:2], dict(num_clips=3)),
        ('files', paths[1::-1], {}),
        ('num_videos', paths, {}),
    ):
        with pytest.raises(ValueError, match=f'other .*{named}'):
            run(given, out, size=3, **change)
    encode(Path(paths[0]), num_frames=9, size=(32, 16))  # replaced
    with pytest.raises(ValueError, match='files'):
        run(paths[:2], out, size=3)


def test_clips_cover_the_video_and_show_its_middle(tmp_path: Path):
    frames = np.zeros((20, 64, 96, 3), np.uint8)
    frames[:, :, 16:80] = 12 * np.arange(20, dtype=np.uint8)[:, None, None, None]
    encode_frames(tmp_path / 'video.mp4', frames)
    clips = VideoClips([str(tmp_path / 'video.mp4')], ClipInput(4, 2, 64), num_clips=3)
    sample = clips[0]
    assert sample['inputs'].shape == (3, 3, 4, 64, 64)
    seen = sample['inputs'].float().mean((1, 3, 4)) / 12  # (num_clips, T), which frame it was
    expected = np.array([0, 6, 12])[:, None] + np.array([0, 2, 4, 6])
    np.testing.assert_allclose(seen, expected, atol=0.4)


def test_features_over_time_are_files_that_a_second_call_keeps(tmp_path: Path):
    (tmp_path / 'x/y').mkdir(parents=True)
    lengths = {'a.mp4': 30, 'y/b.mp4': 12, 'short.mp4': 3, 'tilted.mp4': 12}
    for name, frames in lengths.items():
        encode(tmp_path / 'x' / name, num_frames=frames, size=(32, 32))
    turn(tmp_path / 'x/tilted.mp4', 45)
    paths = [str(tmp_path / 'x' / name) for name in (*lengths, 'gone.mp4')]
    encoder, out = Encoder(Means(), ClipInput(4, 2, 32)).eval(), tmp_path / 'out'
    with pytest.raises(ValueError, match='x holds other files'):
        extract_over_time(encoder, paths, tmp_path / 'x', 0.2)
    failed = extract_over_time(encoder, paths, out, 0.2)
    assert list(failed) == paths[2:] and 'shorter' in failed[paths[2]]
    feats, times = np.load(out / 'feats/a.npy'), np.load(out / 'times/a.npy')
    assert feats.shape == (len(times), 3) and times.shape[1] == 2
    parts = [encoder.features(clips) for clips, _ in encoder.windows(paths[0], 0.2)]
    np.testing.assert_allclose(feats, torch.cat(parts), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r'a\.mp4 are not finite'):
        over_time(lambda x: torch.full((len(x), 1), torch.nan), encoder, paths[0], 0.2)
    before = (out / 'feats/a.npy').stat().st_mtime_ns
    encode(tmp_path / 'x/y/b.mp4', num_frames=30, size=(32, 32))  # replaced
    extract_over_time(encoder, paths, out, 0.2)
    assert (out / 'feats/a.npy').stat().st_mtime_ns == before
    assert len(np.load(out / 'feats/y/b.npy')) == len(feats)
    other = Encoder(Means(), encoder.clip_input, dict(backbone=dict(padding='x'))).eval()
    for changed, every in ((encoder, 0.3), (other, 0.2)):
        with pytest.raises(ValueError, match='another'):
            extract_over_time(changed, paths, out, every)
    with pytest.raises(ValueError, match='a without'):
        extract_over_time(encoder, [*paths, f'{tmp_path}/x/a.avi'], out, 0.2)

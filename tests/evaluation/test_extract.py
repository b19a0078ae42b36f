"""Features of video files: clips of unreadable files, several processes, an interruption."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert.description import ClipInput
from cvrl_mm.evaluation.encoder import Encoder
from cvrl_mm.evaluation.features import VideoClips, extract_over_time, extract_to_file, over_time
from cvrl_mm.synthetic.motion import encode as encode_frames
from tests.videos import encode, make_pipe, turn


class Means(torch.nn.Module):
    """A backbone whose features are mean colours; fails at the ``fail_at``-th call."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.weight, self.fail_at = torch.nn.Parameter(torch.ones(())), fail_at
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        return x.mean((2, 3, 4)) * self.weight


def mean_encoder(fail_at: int | None = None, **meta: object) -> Encoder:
    clips = ClipInput(clip_len=2, frame_interval=1, size=16)
    return Encoder(Means(fail_at), clips, meta).eval()


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp('videos')
    for i in range(6):
        encode(folder / f'{i}.mp4', num_frames=3 + i, size=(32, 16))
    return [str(path) for path in sorted(folder.iterdir())]


def run(videos: list[str], out: Path, **change) -> dict[str, str] | None:
    settings = dict(num_clips=2, num_workers=0) | change
    return extract_to_file(settings.pop('encoder', mean_encoder()), videos, out, **settings)


def check(out: Path, videos: list[str]) -> None:
    clips = VideoClips(videos, ClipInput(2, 1, 16), 2)
    expected = [
        mean_encoder().features(clips[i]['inputs']).mean(0).numpy() for i in range(len(videos))
    ]
    data = np.load(out)
    assert data['names'].tolist() == videos
    np.testing.assert_allclose(data['feats'], np.stack(expected), rtol=1e-5)
    assert not out.with_name(f'{out.name}.parts').exists()


def test_unreadable_videos_cost_no_other(videos: list[str], tmp_path: Path):
    encode(tmp_path / 'whole.avi', num_frames=40)
    (tmp_path / 'cut.avi').write_bytes((tmp_path / 'whole.avi').read_bytes()[:300])
    make_pipe(tmp_path / 'pipe.mp4')
    bad = [str(tmp_path / name) for name in ('cut.avi', 'pipe.mp4', 'gone.mp4')]
    failed = run([bad[0], *videos[:3], *bad[1:], *videos[3:]], tmp_path / 'feats.npz')
    assert failed is not None and list(failed) == bad
    assert all(failed.values()) and not any('\n' in reason for reason in failed.values())
    check(tmp_path / 'feats.npz', videos)
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
    check(out, videos)
    # the same command, which has finished meanwhile
    finish = lambda done, total: shutil.rmtree(f'{out}.parts')  # noqa: E731
    assert run(videos, out, on_progress=finish) is None
    out.unlink()
    with pytest.raises(FileNotFoundError):
        run(videos, out, on_progress=finish)


def test_features_of_other_encoders_clips_or_lists_are_not_mixed_in(
    videos: list[str], tmp_path: Path
):
    out = tmp_path / 'feats.npz'
    run(videos[:2], out, size=2, encoder=mean_encoder(backbone=dict(padding='symmetric')))
    for named, paths, change in (
        ('backbone', videos[:2], {}),  # equal weights of another architecture
        ('num_clips', videos[:2], dict(num_clips=3)),
        ('files_sha256', videos[1::-1], {}),
        ('num_videos', videos[:3], {}),
    ):
        with pytest.raises(ValueError, match=f'other .*{named}'):
            run(paths, out, size=2, **change)


def test_features_of_replaced_files_are_not_mixed_in(tmp_path: Path, monkeypatch):
    encode(tmp_path / '0.mp4', num_frames=3, size=(32, 16))
    monkeypatch.chdir(tmp_path)
    run(['0.mp4', '1.mp4'], tmp_path / 'feats.npz', size=3)
    encode(tmp_path / '0.mp4', num_frames=9, size=(32, 16))
    with pytest.raises(ValueError, match='other files_sha256'):
        run(['0.mp4', '1.mp4'], tmp_path / 'feats.npz', size=3)


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
    for name, frames in (('x/a.mp4', 30), ('x/y/b.mp4', 12), ('x/short.mp4', 3)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        encode(tmp_path / name, num_frames=frames, size=(32, 32))
    encode(tmp_path / 'x/tilted.mp4', num_frames=12, size=(32, 32))
    turn(tmp_path / 'x/tilted.mp4', 45)
    names = ('a.mp4', 'y/b.mp4', 'short.mp4', 'tilted.mp4', 'gone.mp4')
    paths = [str(tmp_path / 'x' / name) for name in names]
    encoder, out = Encoder(Means(), ClipInput(4, 2, 32)).eval(), tmp_path / 'out'
    for folder in (tmp_path / 'x', tmp_path / 'x/y'):
        with pytest.raises(ValueError, match=f'{folder} holds other files'):  # of the same names
            extract_over_time(encoder, paths, folder, 0.2)
    failed = extract_over_time(encoder, paths, out, 0.2)
    assert list(failed) == paths[2:] and 'shorter' in failed[paths[2]]
    feats, times = np.load(out / 'feats/a.npy'), np.load(out / 'times/a.npy')
    assert feats.shape == (len(times), 3) and times.shape[1] == 2
    parts = [encoder.features(clips) for clips, _ in encoder.windows(paths[0], 0.2)]
    np.testing.assert_allclose(feats, torch.cat(parts), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r'a\.mp4 are not finite'):
        list(over_time(lambda x: torch.full((len(x), 1), torch.nan), encoder, paths[:1], 0.2))
    assert np.load(out / 'feats/y/b.npy').ndim == 2
    before = (out / 'feats/a.npy').stat().st_mtime_ns
    encode(tmp_path / 'x/y/b.mp4', num_frames=30, size=(32, 32))  # replaced
    extract_over_time(encoder, paths, out, 0.2)
    assert (out / 'feats/a.npy').stat().st_mtime_ns == before
    assert len(np.load(out / 'feats/y/b.npy')) == len(feats)
    (tmp_path / 'x/y').rename(tmp_path / 'z')
    (tmp_path / 'x/y').mkdir()
    (tmp_path / 'x/a.mp4').rename(tmp_path / 'x/y/b.mp4')  # older than its file
    (tmp_path / 'x/a.mp4').write_bytes(b'damaged')
    failed = extract_over_time(encoder, paths, out, 0.2)
    assert paths[0] in failed and not (out / 'feats/a.npy').exists()
    np.testing.assert_array_equal(np.load(out / 'feats/y/b.npy'), feats)
    other = Encoder(Means(), encoder.clip_input, dict(backbone=dict(padding='x'))).eval()
    for changed, every in ((encoder, 0.3), (other, 0.2)):
        with pytest.raises(ValueError, match='another'):
            extract_over_time(changed, paths, out, every)
    with pytest.raises(ValueError, match='a without'):
        extract_over_time(encoder, [*paths, f'{tmp_path}/x/a.avi'], out, 0.2)

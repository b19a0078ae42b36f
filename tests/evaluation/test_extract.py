"""Features of video files: clips of unreadable files, several processes, a kill."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert.description import ClipInput
from cvrl_mm.evaluation import features
from cvrl_mm.evaluation.encoder import Encoder, VideoClips, extract_to_file
from cvrl_mm.synthetic.motion import encode as encode_frames
from tests.processes import end, start
from tests.videos import encode, make_pipe


class Means(torch.nn.Module):
    """A backbone whose features are mean colours."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__()
        self.weight, self.seconds = torch.nn.Parameter(torch.ones(())), seconds
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > 1:
            time.sleep(self.seconds)
        return x.mean((2, 3, 4)) * self.weight


def encoder(seconds: float = 0, **meta: object) -> Encoder:
    clips = ClipInput(clip_len=2, frame_interval=1, size=16)
    return Encoder(Means(seconds), clips, meta).eval()


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp('videos')
    for i in range(6):
        encode(folder / f'{i}.mp4', num_frames=3 + i, size=(32, 16))
    return [str(path) for path in sorted(folder.iterdir())]


def run(videos: list[str], out: Path, **change) -> dict[str, str] | None:
    settings = dict(num_clips=2, num_workers=0) | change
    return extract_to_file(settings.pop('encoder', encoder()), videos, out, **settings)


def check(out: Path, videos: list[str]) -> None:
    clips = VideoClips(videos, ClipInput(2, 1, 16), 2)
    expected = [encoder().features(clips[i]['inputs']).mean(0).numpy() for i in range(len(videos))]
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


def test_the_last_process_joins_also_after_one_was_killed(videos: list[str], tmp_path: Path):
    out = tmp_path / 'feats.npz'
    assert run(videos, out, rank=0, size=2) is None
    killed = start(slow_rank, videos, out)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob('*/feats_*.npz'))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    end([killed])  # SIGKILL after its first video
    assert run(videos, out, rank=0, size=2) is None and not out.exists()
    assert run(videos, out, rank=1, size=2) == {}
    check(out, videos)


def slow_rank(videos: list[str], out: Path) -> None:
    features.BLOCK_VIDEOS = 1
    run(videos, out, rank=1, size=2, batch_size=1, encoder=encoder(seconds=600))


def test_an_interrupted_run_continues_with_any_number_of_processes(
    videos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    compute, calls = Encoder.features, []

    def interrupted(self: Encoder, clips: torch.Tensor) -> torch.Tensor:
        calls.append(len(clips))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return compute(self, clips)

    monkeypatch.setattr(Encoder, 'features', interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(videos, tmp_path / 'feats.npz', batch_size=1)
    for rank in range(3):
        run(videos, tmp_path / 'feats.npz', batch_size=1, rank=rank, size=3)
    assert len(calls) == 4 + 3  # three of six were done
    check(tmp_path / 'feats.npz', videos)


def test_features_of_other_encoders_clips_or_lists_are_not_mixed_in(
    videos: list[str], tmp_path: Path
):
    out = tmp_path / 'feats.npz'
    run(videos[:2], out, size=2, encoder=encoder(backbone=dict(padding='symmetric')))
    for named, paths, change in (
        ('backbone', videos[:2], {}),  # equal weights of another architecture
        ('num_clips', videos[:2], dict(num_clips=3)),
        ('names_sha256', videos[1::-1], {}),
        ('num_videos', videos[:3], {}),
    ):
        with pytest.raises(ValueError, match=f'other .*{named}'):
            run(paths, out, size=2, **change)


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

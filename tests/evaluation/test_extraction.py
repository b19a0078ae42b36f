import json
import multiprocessing as mp
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert.clip_input import ClipInput
from cvrl_mm.evaluation import extraction
from cvrl_mm.evaluation.encoder import Encoder
from cvrl_mm.evaluation.extraction import extract_to_file
from cvrl_mm.evaluation.feature_parts import join_parts
from cvrl_mm.evaluation.features import weights_sha256
from cvrl_mm.evaluation.video_files import VideoFiles
from cvrl_mm.list_parts import parts_folder
from tests.processes import context, end, exit_codes, start
from tests.videos import encode, make_pipe


class Means(torch.nn.Module):
    """A backbone whose features are mean colors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3, 4)) * self.weight


def encoder() -> Encoder:
    return Encoder(Means(), ClipInput(clip_len=2, frame_interval=1, size=16)).eval()


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp('videos')
    for i in range(6):
        encode(folder / f'{i}.mp4', num_frames=3 + i, size=(32, 16))
    return [str(path) for path in sorted(folder.iterdir())]


def run(videos: list[str], out: Path, **kwargs: object) -> dict[str, str] | None:
    return extract_to_file(encoder(), videos, out, num_clips=2, **{'num_workers': 0, **kwargs})


def expected(videos: list[str]) -> np.ndarray:
    clips = VideoFiles(videos, ClipInput(2, 1, 16), 2)
    return np.stack(
        [encoder().features(clips[i]['inputs']).mean(0).numpy() for i in range(len(videos))]
    )


def test_unreadable_videos_cost_no_other(videos: list[str], tmp_path: Path):
    cut = tmp_path / 'cut.avi'
    encode(tmp_path / 'whole.avi', num_frames=40)
    cut.write_bytes((tmp_path / 'whole.avi').read_bytes()[:300])
    make_pipe(tmp_path / 'pipe.mp4')
    bad = [str(cut), str(tmp_path / 'pipe.mp4'), str(tmp_path / 'gone.mp4')]
    failed = run([bad[0], *videos[:3], *bad[1:], *videos[3:]], tmp_path / 'feats.npz')
    assert failed is not None and list(failed) == bad and all(failed.values())
    data = np.load(tmp_path / 'feats.npz')
    assert data['names'].tolist() == videos
    np.testing.assert_allclose(data['feats'], expected(videos), rtol=1e-5)


def killed_worker(videos: list[str], out: Path) -> None:
    load = VideoFiles.__getitem__

    def die(self: VideoFiles, index: int) -> dict:
        if self.paths[index] == videos[4]:
            time.sleep(1)  # until the features of the first videos are written
            os.kill(os.getpid(), signal.SIGKILL)
        return load(self, index)

    VideoFiles.__getitem__ = die
    mp.set_start_method('fork', force=True)  # the worker inherits it
    try:
        run(videos, out, num_workers=1, batch_size=1)
    except ChildProcessError as error:
        out.with_suffix('.txt').write_text(str(error))
        os._exit(3)  # torch reports the death again, wherever this process is


def test_a_worker_that_is_killed_loses_no_finished_video(
    videos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / 'feats.npz'
    assert exit_codes([start(killed_worker, videos, out)]) == [3]
    said = (tmp_path / 'feats.txt').read_text()
    assert 'DataLoader worker' in said and 'Finished videos are kept' in said
    assert 'cvrl check' in said and 'docs/encoder.md' in said
    assert not out.exists() and list(parts_folder(out).glob('*/rows.jsonl'))
    features, calls = Encoder.features, []
    monkeypatch.setattr(Encoder, 'features', lambda *args: calls.append(1) or features(*args))
    assert run(videos, out, batch_size=1) == {}
    assert len(calls) < len(videos)
    np.testing.assert_allclose(np.load(out)['feats'], expected(videos), rtol=1e-5)


def test_a_video_that_is_moved_away_leaves_the_parts_valid(videos: list[str], tmp_path: Path):
    copies = [shutil.copy(video, tmp_path) for video in videos[:3]]
    assert run(copies, tmp_path / 'feats.npz', rank=0, size=2) is None
    os.remove(copies[1])  # as docs/encoder.md advises for a video that crashes the decoder
    assert run(copies, tmp_path / 'feats.npz', rank=1, size=2) is None
    assert list(join_parts(tmp_path / 'feats.npz')) == [copies[1]]
    assert np.load(tmp_path / 'feats.npz')['names'].tolist() == [copies[0], copies[2]]


def slow_rank(videos: list[str], out: Path, rank: int, size: int, pause: float) -> None:
    features = Encoder.features

    def slow(self: Encoder, clips: torch.Tensor) -> torch.Tensor:
        time.sleep(pause)
        return features(self, clips)

    extraction.Encoder.features = slow
    run(videos, out, batch_size=1, rank=rank, size=size)


def test_two_ranks_one_of_them_killed_then_joined(videos: list[str], tmp_path: Path):
    assert context.get_start_method() == 'forkserver'
    out = tmp_path / 'feats.npz'
    ranks = [start(slow_rank, videos, out, 0, 2, 0.0), start(slow_rank, videos, out, 1, 2, 600.0)]
    lines = parts_folder(out) / 'part_1_of_2/rows.jsonl'
    assert exit_codes(ranks[:1]) == [0]
    deadline = time.monotonic() + 120
    while not lines.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    end(ranks)  # SIGKILL in the middle of its first video
    with pytest.raises(ValueError, match=r'part_1_of_2 has 0 of 3 videos'):
        join_parts(out)
    (before,) = {path.stat().st_mtime_ns for path in out.parent.glob('*/part_0_of_2/data')}
    assert run(videos, out, rank=0, size=2) is None  # has nothing left to do
    assert run(videos, out, rank=1, size=2) is None
    (after,) = {path.stat().st_mtime_ns for path in out.parent.glob('*/part_0_of_2/data')}
    assert after == before
    assert join_parts(out) == {}
    data = np.load(out)
    assert data['names'].tolist() == videos
    np.testing.assert_allclose(data['feats'], expected(videos), rtol=1e-5)


def test_an_interrupted_run_goes_on(
    videos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    features, calls = Encoder.features, []

    def interrupted(self: Encoder, clips: torch.Tensor) -> torch.Tensor:
        calls.append(len(clips))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return features(self, clips)

    monkeypatch.setattr(Encoder, 'features', interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(videos, tmp_path / 'feats.npz', batch_size=1)
    assert not (tmp_path / 'feats.npz').exists()
    run(videos, tmp_path / 'feats.npz', batch_size=1)
    assert len(calls) == 4 + 3  # three of six were done
    np.testing.assert_allclose(
        np.load(tmp_path / 'feats.npz')['feats'], expected(videos), rtol=1e-5
    )


def test_features_of_an_architecture_with_equal_weights_are_not_mixed_in(
    videos: list[str], tmp_path: Path
):
    def run_with(padding: str | None) -> dict[str, str] | None:
        network = encoder()
        network.meta = dict(backbone=dict(padding=padding)) if padding else {}
        return extract_to_file(
            network, videos[:2], tmp_path / 'feats.npz', 2, num_workers=0, size=2
        )

    assert run_with('symmetric') is None
    assert run_with('symmetric') is None
    with pytest.raises(ValueError, match='holds features with other backbone; finish that run'):
        run_with('tf_same')
    with pytest.raises(ValueError, match='holds features with other backbone; finish that run'):
        run_with(None)


def test_parts_that_name_no_architecture_are_finished_where_there_is_none(
    videos: list[str], tmp_path: Path
):
    run(videos, tmp_path / 'feats.npz', size=2)
    (meta,) = tmp_path.glob('feats.npz.parts/*/meta.json')
    content = json.loads(meta.read_text())
    del content['source']['backbone']
    meta.write_text(json.dumps(content))
    run(videos, tmp_path / 'feats.npz', rank=1, size=2)
    assert join_parts(tmp_path / 'feats.npz') == {}


def test_the_digest_tells_weights_apart():
    one, other = Means(), Means()
    assert weights_sha256(one) == weights_sha256(other)
    with torch.no_grad():
        other.weight += 1
    assert weights_sha256(one) != weights_sha256(other)
    assert weights_sha256(one) != weights_sha256(Means().to(torch.bfloat16))

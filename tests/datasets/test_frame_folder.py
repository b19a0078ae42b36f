"""Folders of numbered images as videos."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from cvrl_mm.datasets.frame_folder import FrameFolder, open_video
from cvrl_mm.datasets.frame_store import open_store
from cvrl_mm.datasets.lists import find_videos, gather_videos
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.io import file_stamp
from cvrl_mm.models import R3DSlow
from cvrl_mm.preparation.check import find_fault
from tests.datasets.test_dataset import mixed_dataset
from tests.encoding import X264, decode_all, encode


def write_frames(folder: Path, images: list[np.ndarray], numbers=None, name='img_{:05d}.jpg'):
    return write_images(folder, [image[..., ::-1] for image in images], numbers, name)


def write_images(folder: Path, images: list[np.ndarray], numbers=None, name='img_{:05d}.jpg'):
    """Write images as OpenCV has them, also grey ones and of 16 bits."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in zip(numbers or range(1, len(images) + 1), images, strict=True):
        cv2.imwrite(str(folder / name.format(number)), image)
    return folder


@pytest.fixture
def images(tmp_path: Path) -> list[np.ndarray]:
    return decode_all(encode(tmp_path / 'a.mp4', num_frames=60, options=X264))  # 25 per second


@pytest.fixture
def folder(tmp_path: Path, images: list[np.ndarray]) -> Path:
    (tmp_path / 'fps.txt').write_text('25\n')
    return write_frames(tmp_path / 'set/b/1', images)


def test_features_are_those_of_the_video(tmp_path: Path, folder: Path):
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125)
    net.init_weights()
    encoder = Encoder(net.eval(), ClipInput(4, 2, 32, fps=20))
    ours, theirs = (encoder.transform(path, num_clips=3) for path in (folder, tmp_path / 'a.mp4'))
    assert (ours.float() - theirs.float()).abs().mean() < 4  # of 255, the error of JPEG
    one, other = encoder.features(ours), encoder.features(theirs)
    assert torch.cosine_similarity(one, other).min() > 0.99
    for (_, found), (_, expected) in zip(
        encoder.windows(folder, 0.5), encoder.windows(tmp_path / 'a.mp4', 0.5), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_lists_and_folders_hold_them(tmp_path: Path, folder: Path, images):
    root = tmp_path / 'set'
    write_frames(root / 'b/beside a video', images[:2])
    (tmp_path / 'a.mp4').rename(root / 'b/beside a video/c.mp4')
    found = [root / 'b/1', root / 'b/beside a video/c.mp4']
    with pytest.warns(UserWarning, match=r'\.jpg \(2\)'):
        assert find_videos(root) == found
    assert gather_videos([folder]) == [str(folder)]
    (tmp_path / 'list.txt').write_text('b/1 3\n')
    data = mixed_dataset(tmp_path, data_prefix=dict(video=str(root)))
    assert data[0]['inputs'].shape == (2, 3, 2, 48, 64)


def test_only_requested_images_are_read(folder: Path, images, monkeypatch: pytest.MonkeyPatch):
    read, opened = cv2.imread, []
    monkeypatch.setattr(cv2, 'imread', lambda path, *args: opened.append(path) or read(path, *args))
    with open_video(folder) as video:
        found = video.read([40, 7, 40])
    assert len(opened) == 2 and 'img_00008' in opened[0]
    for image, n in zip(found, (40, 7, 40), strict=True):
        assert abs(image.astype(int) - images[n]).mean() < 4
    found[0][:] = 0
    assert found[2].any()


def test_missing_numbers_other_sizes_and_one_image(tmp_path: Path, images):
    (tmp_path / 'fps.txt').write_text('10')
    numbers = [8, 9, 11, 100, 101]  # not padded, so that names sort otherwise
    gaps = FrameFolder(write_frames(tmp_path / 'gaps', images[:5], numbers, '{}.png'))
    np.testing.assert_allclose(gaps.times, [0, 0.1, 0.3, 9.2, 9.3])
    np.testing.assert_array_equal(gaps.read(range(5)), images[:5])
    sizes = write_frames(tmp_path / 'sizes', [images[0], images[1][:24]], name='{}.png')
    assert [x.shape for x in FrameFolder(sizes).read([0, 1])] == 2 * [(48, 64, 3)]
    one = FrameFolder(write_frames(tmp_path / 'one', images[:1]))
    assert (one.num_frames, one.rate, one.times.tolist()) == (1, 10, [0])
    write_frames(tmp_path / 'one', images[:3], name='flow_x_{:05d}.jpg')
    assert FrameFolder(tmp_path / 'one').num_frames == 1  # optical flow is left out


def test_what_cannot_be_read_says_so(tmp_path: Path, images):
    folder = write_frames(tmp_path / 'a', images[:3])
    assert find_videos(tmp_path / 'a') == []  # without a rate, they may be photographs
    with pytest.raises(UnreadableVideoError, match=r'fps\.txt'):
        open_video(folder)
    (tmp_path / 'fps.txt').write_text('10')
    (folder / '._img_00001.jpg').write_bytes(b'of a Mac')
    assert find_fault(str(folder)) is None
    (folder / 'img_00002.jpg').write_bytes(b'')
    assert 'img_00002' in find_fault(str(folder))
    write_frames(tmp_path / 'b', images[:3], name='left{}.png')
    write_frames(tmp_path / 'b', images[:3], name='right{}.png')
    (tmp_path / 'c').mkdir()
    for name in 'bc':
        with pytest.raises(UnreadableVideoError, match='numbered images'):
            open_video(tmp_path / name)
    write_frames(tmp_path / 'd', images[:3], name='{:03d}.jpg')
    write_frames(tmp_path / 'd', images[:1], name='{:03d}.png')  # a mask
    with pytest.raises(UnreadableVideoError, match=r'001\.jpg and 001\.png'):
        open_video(tmp_path / 'd')


@pytest.mark.parametrize(
    ('content', 'rate'),
    [
        (b'15\r\n', 15),
        (b'\xef\xbb\xbf15\n', 15),
        (b'30000/1001', 30000 / 1001),
        (b'29,97', None),
        (b'30/0', None),
        (b'nan', None),
        (b'\xff\xff', None),
        (b'', None),
    ],
)
def test_rates(tmp_path: Path, images, content: bytes, rate: float | None):
    folder = write_frames(tmp_path / 'a/b', images[:3])
    (tmp_path / 'a/fps.txt').write_bytes(content)
    assert find_videos(tmp_path / 'a') == [folder]  # so that a wrong file is named
    if rate is None:
        with pytest.raises(UnreadableVideoError, match=r'fps\.txt holds'):
            open_video(folder)
    else:
        assert open_video(folder).rate == pytest.approx(rate)


def test_pictures_above_videos_are_none(tmp_path: Path, images):
    (tmp_path / 'fps.txt').write_text('10')
    clips = [write_frames(tmp_path / f'x/jump/{i}', images[i : i + 2]) for i in range(2)]
    write_frames(tmp_path / 'x/jump', images[:1], name='preview_{}.jpg')
    write_frames(tmp_path / 'x', images[:1], name='all_{}.jpg')
    with pytest.warns(UserWarning, match=r'\.jpg \(2\)'):
        assert find_videos(tmp_path / 'x') == clips


def test_what_was_made_of_a_changed_folder_is_made_again(tmp_path: Path, images):
    folder = write_frames(tmp_path / 'a/b', images[:3])
    (tmp_path / 'fps.txt').write_text('10')
    seen = set()

    def is_new() -> bool:
        stamp = file_stamp(folder)
        stored = open_store([str(folder)], tmp_path / 'store').get(str(folder))
        video = open_video(folder)
        assert (stored.rate, stored.num_frames) == (video.rate, video.num_frames)
        np.testing.assert_array_equal(stored.read([0]), video.read([0]))
        found = stamp not in seen
        seen.add(stamp)
        return found

    assert is_new() and not is_new()
    (folder / '.DS_Store').touch()
    assert not is_new()
    (tmp_path / 'fps.txt').write_text('15')
    assert is_new()
    (tmp_path / 'a/fps.txt').write_text('20')  # nearer
    assert is_new()
    write_frames(folder, images[10:13])
    assert is_new()
    write_frames(folder, images[:4])
    assert is_new() and not is_new()

"""Tiny videos, whole and broken in the ways that are met in the wild."""

import struct
from pathlib import Path

import av
import numpy as np
from av.stream import Disposition

from tests import encoding


def encode(
    path: Path,
    num_frames: int = 12,
    size: tuple[int, int] = (64, 32),
    uneven: bool = False,
    options: dict | None = None,
) -> None:
    """Write a video with 30 frames per second; ``uneven`` gives its frames uneven times."""
    settings = dict(gop_size=6, options=dict(preset='ultrafast'), container_options=options)
    encoding.encode(path, 'libx264', num_frames, size, uneven=uneven, rate=30, **settings)


def encode_sound(path: Path, cover: bool = False) -> None:
    """Write a file that holds sound alone, or with a picture as its cover."""
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('aac', rate=44100)
        if cover:
            picture = container.add_stream('mjpeg', rate=25)
            picture.width, picture.height, picture.pix_fmt = 64, 48, 'yuvj420p'
            picture.disposition = Disposition.attached_pic.value
            container.mux(picture.encode(av.VideoFrame(64, 48, 'yuvj420p')))
            container.mux(picture.encode())
        for i in range(8):
            silence = np.zeros((2, 1024), np.float32)
            frame = av.AudioFrame.from_ndarray(silence, 'fltp', 'stereo')
            frame.sample_rate, frame.pts = 44100, i * 1024
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def turn(path: Path, degrees: int, mirror: bool = False) -> None:
    """Give an MP4 the matrix by which players turn it clockwise, maybe after a vertical flip."""
    data = bytearray(path.read_bytes())
    at = data.find(b'tkhd') + 44
    cos, sin = (round(f(np.deg2rad(degrees)) * (1 << 16)) for f in (np.cos, np.sin))
    flip = -1 if mirror else 1
    matrix = cos, sin, 0, -sin * flip, cos * flip, 0, 0, 0, 1 << 30
    data[at : at + 36] = struct.pack('>9i', *matrix)
    path.write_bytes(data)


def write_odd(folder: Path) -> list[Path]:
    """Files that are unusual and can be read."""
    encode(folder / 'one frame.mp4', num_frames=1)
    encode(folder / 'three frames.mp4', num_frames=3)
    encode(folder / 'variable rate.mp4', uneven=True)
    encode(folder / '4K.mp4', num_frames=2, size=(3840, 2160))
    encode(folder / 'Ümläut 馬 движение.mp4')
    on_its_side = folder / 'rotated.mp4'
    encode(on_its_side)
    turn(on_its_side, 90)
    claims_too_many = folder / 'wrong count in the header.avi'
    encode(claims_too_many)
    data = bytearray(claims_too_many.read_bytes())
    data[(at := data.find(b'avih') + 24) : at + 4] = struct.pack('<I', 5000)
    data[(at := data.find(b'strh') + 40) : at + 4] = struct.pack('<I', 5000)
    claims_too_many.write_bytes(data)
    return sorted(folder.iterdir())


def write_broken(folder: Path) -> list[Path]:
    """Files that no decoder reads, and the path of one that is not there."""
    encode(folder / 'whole.mp4', num_frames=40)
    whole = (folder / 'whole.mp4').read_bytes()
    encode(folder / 'index in front.mp4', num_frames=40, options=dict(movflags='faststart'))
    front = (folder / 'index in front.mp4').read_bytes()
    (folder / 'whole.mp4').unlink()
    (folder / 'index in front.mp4').unlink()

    (folder / 'empty.mp4').write_bytes(b'')
    (folder / 'truncated.mp4').write_bytes(whole[: len(whole) // 2])
    start = front.find(b'mdat') + 4
    noise = np.random.default_rng(0).bytes(len(front) - start)
    (folder / 'noise behind its index.mp4').write_bytes(front[:start] + noise)
    (folder / 'text.mp4').write_text('<html>This video is unavailable</html>')
    (folder / 'zeros.mp4').write_bytes(bytes(4096))
    encode_sound(folder / 'sound alone.mp4')
    (folder / 'folder.mp4').mkdir()
    return sorted([*folder.iterdir(), folder / 'vanished.mp4'])

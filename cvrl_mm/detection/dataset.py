"""The key frames of AVA, and transforms of their clips."""

import os.path as osp
from collections import Counter, defaultdict
from itertools import product
from typing import Any

import numpy as np
from mmaction.datasets import AVADataset
from mmaction.registry import DATASETS, TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.logging import MMLogger

from ..datasets.decoding import add_frames
from ..datasets.reader import VideoFile
from ..datasets.seeding import SampleIndex, seeded_draws
from .annotations import (
    Source,
    find_frames,
    find_movies,
    load_proposals,
    probe_video,
    read_actions,
    read_exclusions,
    select_people,
)
from .metric import CLASSES

MAX_MISSING = 0.05  # share of the movies


@DATASETS.register_module()
class AVAKeyframeDataset(AVADataset):
    """MMAction2's ``AVADataset`` that checks all its files when it is built.

    The following key frames are omitted, and the log states their numbers:

    - key frames that AVA excludes;
    - key frames of a missing movie (more than 5 % missing movies are an error), or outside the
      seconds that the file of their movie covers;
    - key frames with all annotated boxes outside the frame;
    - in test mode, key frames for which the proposal file has no person.

    The metric counts the annotations of omitted key frames as missed, except where AVA
    excludes. In training, a key frame without proposals is used with its annotated boxes. Boxes
    are clipped at the border of the frame.

    In a run with ``SeededEpochLoop``, the random numbers of a sample depend only on the seed,
    the epoch and the index of the sample, even if another key frame replaces a failed one.

    The proposal file is read by :func:`load_proposals`, which cannot execute code from it.

    Args:
        ann_file: AVA's csv file of annotated boxes.
        proposal_file: File of person boxes. None for detectors that propose their own.
        use_frames: Whether to read extracted frames from one folder per movie. If False, video
            files ``MOVIE.*`` are read by ``ReadAVAClip`` in the pipeline.
        key_seconds: First and last second of the range in which, in test mode, each second is a
            key frame, annotated or not. AVA evaluates 902 to 1798 (``AVA_VALID_FRAMES``
            in SlowFast's ``ava_helper.py``) without the excluded seconds. None tests only annotated
            key frames, as in MMAction2.
        **kwargs: Further arguments of ``AVADataset``. ``start_index``, the number of the first
            frame, is by default 1 for extracted frames and 0 for videos. ``timestamp_start`` is
            the second of the movie at which its file starts: 900 for files that were cut at this
            second, 0 for whole movies. In test mode, a key frame without a person with a score of
            ``person_det_score_thr`` uses the best one.

    Raises:
        FileNotFoundError: A file or more than 5 % of the movies are missing.
        ValueError: A file is malformed, or no key frame is left.
    """

    def __init__(
        self,
        ann_file: str,
        proposal_file: str | None = None,
        use_frames: bool = True,
        key_seconds: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.key_seconds = key_seconds
        self.person_boxes = None if proposal_file is None else load_proposals(proposal_file)
        kwargs.setdefault('start_index', int(use_frames))  # extracted frames count from 1
        super().__init__(ann_file, use_frames=use_frames, proposal_file=None, **kwargs)

    def __getitem__(self, idx: int) -> dict:
        """Load a key frame."""
        if not isinstance(idx, SampleIndex):
            return super().__getitem__(idx)
        with seeded_draws(*idx.key):
            return super().__getitem__(int(idx))

    def load_data_list(self) -> list[dict]:
        """Read the csv file into one dict per key frame, with boxes clipped at the frame's border.

        Raises:
            FileNotFoundError: See the class.
            ValueError: A line is malformed, or names an action that does not exist.
        """
        self.left_out: Counter[str] = Counter()
        # for the comparison with the evaluator's
        self._metainfo.update({name: getattr(self, name) for name in CLASSES})
        by_frame: dict[tuple[str, int], list[dict]] = defaultdict(list)
        videos, classes = set(), self.custom_classes or range(self.num_classes)
        for row in read_actions(self.ann_file):
            videos.add(row.video)  # tested also without one of the custom classes
            if row.action not in classes:
                if self.custom_classes is None:
                    raise ValueError(f'{self.ann_file}: {row} has no class in {classes}.')
                continue
            records = by_frame[row.video, row.second]
            box, label = np.clip(row.box, 0, 1), classes.index(row.action)
            if (box[2:] > box[:2]).all():
                records.append(dict(entity_box=box, label=label, entity_id=row.person))
            else:
                self.left_out['single boxes outside the frame or without area'] += 1
        if self.test_mode and self.key_seconds is not None:
            first, last = self.key_seconds
            for frame in product(sorted(videos), range(first, last + 1)):
                by_frame[frame]  # adds an empty list for a key frame without annotations
        sources = self._find_sources(sorted(videos))
        frames = []
        for (video, second), records in by_frame.items():
            source = sources[video]
            if source is None:
                self.left_out['movie missing'] += 1
            elif not 0 <= second - self.timestamp_start < source.seconds:
                self.left_out['outside the duration of the movie'] += 1
            elif not records and not (self.test_mode and self.key_seconds):
                self.left_out['no box within the frame'] += 1
            else:
                frames.append(self._frame(source, video, second, records))
        return frames

    def filter_data(self) -> list[dict]:
        """Omit key frames that AVA excludes and, in test mode, those without a detected person.

        Raises:
            ValueError: No key frame is left, or none is in the file of person boxes.
        """
        excluded = read_exclusions(self.exclude_file) if self.exclude_file else set()
        keys = {frame['img_key'] for frame in self.data_list}
        if self.person_boxes is not None and keys and not keys & self.person_boxes.keys():
            raise ValueError(
                f'None of the {len(keys)} key frames of {self.ann_file} is in the proposal_file, '
                f'which has {next(iter(self.person_boxes), "none")!r}.'
            )
        kept = []
        for frame in self.data_list:
            people = self._proposals(frame['img_key'])
            if (frame['video_id'], frame['timestamp']) in excluded:
                self.left_out['excluded by AVA'] += 1
            elif self.test_mode and people is not None and not len(people):
                self.left_out['nobody detected'] += 1
            else:
                kept.append(frame)
        logger = MMLogger.get_current_instance()
        logger.info(f'{self.ann_file}: {len(kept)} key frames')
        for reason, count in self.left_out.items():
            logger.warning(f'{self.ann_file}: left out {count}: {reason}')
        if not kept:
            raise ValueError(
                f'{self.ann_file} leaves no key frame: {dict(self.left_out)}. Check data_prefix, '
                f'proposal_file and timestamp_start={self.timestamp_start}.'
            )
        return kept

    def get_data_info(self, idx: int) -> dict:
        """Return a key frame; boxes and ``proposals``, (N, 4), are fractions of the frame."""
        info = super().get_data_info(idx)
        people = self._proposals(info['img_key'])
        return info if people is None else {**info, 'proposals': people}

    def _find_sources(self, videos: list[str]) -> dict[str, Source | None]:
        folder = self.data_prefix['img'] or ''
        if self.use_frames:
            how = self.filename_tmpl, self.start_index, self._FPS
            sources = {v: find_frames(osp.join(folder, v), *how) for v in videos}
        else:
            files = find_movies(folder)
            sources = {v: probe_video(files.get(v)) for v in videos}
        missing = [v for v, source in sources.items() if source is None]
        if len(missing) > MAX_MISSING * len(videos):
            raise FileNotFoundError(
                f'{len(missing)} of {len(videos)} movies of {self.ann_file} have no readable '
                f'{"frames" if self.use_frames else "video"} in {folder!r}, the first one is '
                f'{missing[0]!r}; check data_prefix and filename_tmpl={self.filename_tmpl!r}.'
            )
        return sources

    def _frame(self, source: Source, video: str, second: int, records: list[dict]) -> dict:
        boxes, labels = np.zeros((0, 4)), np.zeros((0, self.num_classes))
        people = np.zeros(0, int)
        if records:
            boxes, labels, people = self.parse_img_record(records)
        return {
            'frame_dir' if self.use_frames else 'filename': source.path,
            'video_id': video,
            'timestamp': second,
            'img_key': f'{video},{second:04d}',
            'shot_info': (0, source.frames),
            'fps': self._FPS,
            'ann': dict(gt_bboxes=boxes, gt_labels=labels, entity_ids=people),
        }

    def _proposals(self, key: str) -> np.ndarray | None:
        """Return the person boxes of a key frame that are used, (N, 4), if there is a file."""
        if self.person_boxes is None:
            return None
        boxes = self.person_boxes.get(key, np.zeros((0, 5)))
        thr, most = self.person_det_score_thr, self.num_max_proposals
        # SlowFast trains no boxes below the threshold
        return select_people(boxes, thr, most, at_least_one=self.test_mode)


@TRANSFORMS.register_module()
class ReadAVAClip(BaseTransform):
    """Read the clip centred on a key frame from the video file of the movie.

    This replaces ``SampleAVAFrames`` and ``RawFrameDecode``. It returns the frames that the movie
    shows at multiples of ``1/fps`` seconds, independently of the frame rate of the movie, with the
    key frame in the middle. (MMAction2's sampler adds the number of the first frame twice and is
    therefore one frame late.) Beyond the ends of the video, its first or last frame is repeated.

    The file is read by time, which reads only the part around the clip. ``VideoFileInit`` counts
    the frames and would read the whole movie for every clip.

    Required keys: filename, timestamp, timestamp_start, fps. Added keys: imgs,
    original_shape, img_shape, frame_inds, clip_len, frame_interval, num_clips,
    crop_quadruple. Boxes are converted to pixels.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames, in 1/fps seconds.
    """

    def __init__(self, clip_len: int, frame_interval: int) -> None:
        self.clip_len = clip_len
        self.frame_interval = frame_interval

    def transform(self, results: dict) -> dict:
        """Add the frames and convert the boxes to pixels.

        Raises:
            UnreadableVideoError: The video cannot be read.
        """
        steps = (np.arange(self.clip_len) - self.clip_len // 2) * self.frame_interval
        centre = results['timestamp'] - results['timestamp_start']
        with VideoFile(results['filename']) as video:
            add_frames(results, video.read_at(centre + steps / results['fps']))
        results.update(
            frame_inds=np.arange(self.clip_len),  # FormatShape needs their number
            clip_len=self.clip_len,
            frame_interval=self.frame_interval,
            num_clips=1,
            crop_quadruple=np.array([0, 0, 1, 1], np.float32),
        )
        return results


@TRANSFORMS.register_module()
class KeepVisibleBoxes(BaseTransform):
    """Remove annotated and proposed boxes that are too small after a crop.

    MMAction2's ``RandomCrop`` clips boxes outside the crop to a width or height of 0, and a region
    proposal network takes the logarithm of their size. A clip without any remaining annotated box
    is rejected, and mmengine's dataset draws another one.

    Args:
        min_size: Smallest width and height of a box that is kept, in pixels.
    """

    def __init__(self, min_size: float = 4) -> None:
        self.min_size = min_size

    def transform(self, results: dict) -> dict | None:
        """Filter gt_bboxes, gt_labels and entity_ids together, and proposals."""
        seen = self._visible(results['gt_bboxes'])
        if not seen.any():
            return None
        for key in ('gt_bboxes', 'gt_labels', 'entity_ids'):
            if key in results:
                results[key] = results[key][seen]
        if 'proposals' in results:
            results['proposals'] = results['proposals'][self._visible(results['proposals'])]
        return results

    def _visible(self, boxes: np.ndarray) -> np.ndarray:
        return (boxes[:, 2:] - boxes[:, :2] >= self.min_size).all(1)

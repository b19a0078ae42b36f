"""Detect actions in any video."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from mmaction.apis import init_recognizer
from mmaction.evaluation import read_labelmap
from mmengine.dataset import Compose
from mmengine.runner import load_checkpoint

from ..cli import read_config
from ..models.weights import check_pretrained
from .ava_proposals import select_people

# Steps that read frames in the pipelines of configs; ReadAVAClip replaces them
READING = ('SampleAVAFrames', 'RawFrameDecode', 'ReadAVAClip')


@dataclass
class Detections:
    """The people at one key frame.

    Attributes:
        boxes: x1, y1, x2, y2 as fractions of the frame, (K, 4).
        scores: Probabilities of the actions, (K, actions).
    """

    boxes: np.ndarray
    scores: np.ndarray


class VideoActionDetector:
    """A trained detector of ``configs/detection`` that is applied to single seconds of videos.

    Args:
        config: The config of the training.
        checkpoint: The trained weights.
        device: Where to run, such as 'cuda:0'.
        labels: AVA's label map. None for the label map of the config.

    Raises:
        FileNotFoundError: The label map does not exist.
        ValueError: The checkpoint is a safetensors file, which contains only an encoder.
        CheckpointMisfitError: The checkpoint does not belong to the config.
    """

    def __init__(
        self,
        config: str | PathLike,
        checkpoint: str | PathLike,
        device: str = 'cpu',
        labels: str | None = None,
    ) -> None:
        if str(checkpoint).endswith('.safetensors'):
            raise ValueError(
                f'{checkpoint} is a safetensors file, which holds an encoder without the weights '
                f'of a detector. Train a detector first (tools/train.py {config}) and give its '
                'checkpoint.'
            )
        cfg = read_config(config, 'model', 'test_dataloader')
        dataset = cfg.test_dataloader.dataset
        self.actions = read_action_names(labels or dataset.label_file, dataset)
        self.model = init_recognizer(cfg, device=device)
        check_pretrained(self.model, str(checkpoint))
        load_checkpoint(self.model, str(checkpoint), map_location='cpu')
        sampling = dataset.pipeline[0]
        self.clip_len, self.interval = sampling.clip_len, sampling.frame_interval
        self.fps = dataset.get('fps', 30)
        limits = ('person_det_score_thr', 'num_max_proposals')
        self.limits = {name: dataset[name] for name in limits if name in dataset}
        reading = dict(type='ReadAVAClip', clip_len=self.clip_len, frame_interval=self.interval)
        self.pipeline = Compose(
            [reading, *(step for step in dataset.pipeline if step.type not in READING)]
        )

    @property
    def needs_people(self) -> bool:
        """Whether the detector needs person boxes because it has no region proposal network."""
        return not self.model.with_rpn

    def detect(self, path: PathLike, second: float, people: np.ndarray | None = None) -> Detections:
        """Detect actions in the clip around one second of a video.

        Args:
            path: Video file.
            second: Time from the start of the file.
            people: Person boxes as fractions of the frame, (N, 4) or (N, 5), if ``needs_people``.
                Those are used that :func:`select_people` selects with the settings of the config.

        Raises:
            ValueError: Person boxes are missing.
            RuntimeError: The video cannot be read.
        """
        proposals = {}
        if self.needs_people:
            if people is None:
                raise ValueError(
                    'This detector needs person boxes: make them with '
                    'tools/data/make_proposals.py, or use a config with a region proposal network.'
                )
            people = select_people(people, **self.limits)
            if not len(people):
                return Detections(np.zeros((0, 4)), np.zeros((0, len(self.actions))))
            proposals['proposals'] = people
        frame = dict(
            **proposals,
            filename=str(path),
            timestamp=second,
            timestamp_start=0,
            fps=self.fps,
            modality='RGB',
            gt_bboxes=np.zeros((0, 4)),
            gt_labels=np.zeros((0, 1)),
        )
        packed = self.pipeline(frame)
        with torch.no_grad():
            sample = self.model.test_step({key: [value] for key, value in packed.items()})[0]
        found = sample.pred_instances.cpu().numpy()
        return Detections(found.bboxes, found.scores[:, 1:])


def read_action_names(path: str, dataset: dict) -> list[str]:
    """Read the names of the actions, in the order of a detector's scores.

    Raises:
        FileNotFoundError: The label map does not exist.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f'The label map {path} does not exist; name another one.')
    with open(path) as file:
        names = {item['id']: item['name'] for item in read_labelmap(file)[0]}
    numbers = dataset.get('custom_classes') or range(1, dataset.get('num_classes', 81))
    return [names.get(number, f'action {number}') for number in numbers]

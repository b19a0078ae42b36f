"""Execute one run of the miniature: training and evaluation."""

import json
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.runner import Runner, find_latest_checkpoint

from cvrl_mm.convert.resnet import inflate
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.encoder.recognizers import build_recognizer, calibrate
from cvrl_mm.evaluation.clips import ListClips, batches_of
from cvrl_mm.evaluation.protocols import frozen_accuracy
from cvrl_mm.io import replace_text
from cvrl_mm.processes import usable_cores

from tables import FROZEN

REPOSITORY = Path(__file__).resolve().parents[2]
FINE_TUNING = {  # configs
    'labels_1pct': 'semi_motion_1pct',
    'labels_10pct': 'semi_motion_10pct',
    'labels_all': 'finetune_motion',
}
LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader', 'features_dataloader')


@dataclass(frozen=True)
class Run:
    """One training of ``configs/miniature``, or 'random' for untrained weights.

    Attributes:
        name: Name of the config, without folder and "_motion".
        seed: Seed of the training and of its videos.
        measures: Measures to compute, keys of ``tables.MEASURES``.
        out: Output folder of all runs.
        num_workers: Workers per data loader.
        budget: Factor for the number of steps or epochs in the config, for tests.
    """

    name: str
    seed: int
    measures: set[str]
    out: Path
    num_workers: int
    budget: float = 1.0

    @property
    def folder(self) -> Path:
        """Output folder of this run."""
        return self.out / f'runs/{self.name}/seed{self.seed}'

    def results(self) -> dict[str, Any]:
        """Return the measures of finished trainings, their ``seconds`` and their ``origin``."""
        path = self.folder / 'results.json'
        return json.loads(path.read_text()) if path.is_file() else {}

    def missing(self) -> set[str]:
        """Return the measures that have yet to be computed."""
        return self.measures - set(self.results())

    def execute(self) -> None:
        """Compute the missing measures; an interrupted training continues from its checkpoint."""
        start, missing = time.perf_counter(), self.missing()
        torch.set_num_threads(1)
        register_all_modules()
        if 'top1' in missing:
            self._note(top1=self._train_labelled(self._config(f'{self.name}_motion'), self.folder))
        elif missing:
            self._evaluate(self._pretrain(), missing)
        if missing:
            seconds = self.results().get('seconds', 0) + time.perf_counter() - start
            self._note(seconds=seconds, origin=origin())

    def _pretrain(self) -> Path | None:
        """Pre-train and return the checkpoint of the 3D backbone, or None for untrained weights."""
        if self.name == 'random':
            return None
        config = self._config(f'{self.name}_motion')
        self._train(config, self.folder)
        checkpoint = Path(find_latest_checkpoint(self.folder))
        if config.model.backbone.get('conv1_stride_t', 2) != 1:
            return checkpoint
        inflated = self.folder / 'inflated.pth'  # from a network that was trained on single frames
        state = torch.load(checkpoint, map_location='cpu', weights_only=True)['state_dict']
        expected = build_recognizer(self._config('cvrl_motion')).backbone.state_dict()
        flat = {f'backbone.{k}': inflate(k, state[f'backbone.{k}'], v) for k, v in expected.items()}
        torch.save(dict(state_dict=flat), inflated)
        return inflated

    def _evaluate(self, weights: Path | None, missing: set[str]) -> None:
        if missing & set(FROZEN):
            accuracy = frozen_accuracy(*self._frozen(weights, 'motion'))
            self._note(**{measure: accuracy[measure] for measure in FROZEN})
        if 'transfer' in missing:
            self._note(transfer=frozen_accuracy(*self._frozen(weights, 'transfer'))['linear'])
        for measure in sorted(missing & set(FINE_TUNING)):
            config = self._config(FINE_TUNING[measure])
            init = dict(type='Pretrained', checkpoint=str(weights), prefix='backbone.')
            config.model.backbone.init_cfg = weights and init
            self._note(**{measure: self._train_labelled(config, self.folder / measure)})

    def _frozen(
        self, weights: Path | None, classes: str
    ) -> tuple[Encoder, Iterable[list[dict]], Iterable[list[dict]]]:
        """Build an encoder and the batches of the training and the test videos.

        For untrained weights, the statistics of batch norm are computed on the training videos.
        """
        config = self._config('cvrl_motion')
        model = build_recognizer(config, str(weights) if weights else None).to(get_device())
        if weights is None:
            calibrate(config, model)
        loaders = []
        for split in ('train', 'test'):
            loader = config.features_dataloader
            loader.dataset.ann_file = f'{split}.txt'
            self._read_videos(loader, classes)
            videos = ListClips(loader.dataset)
            loaders.append(batches_of(videos, loader.batch_size, loader.num_workers))
        return Encoder.of(model).eval(), loaders[0], loaders[1]

    def _train_labelled(self, config: Config, folder: Path) -> float:
        config.train_cfg.val_begin = config.train_cfg.max_epochs + 1  # only after the training
        return self._train(config, folder).val()['acc/top1']

    def _train(self, config: Config, folder: Path) -> Runner:
        """Train; an interrupted training continues from its last checkpoint."""
        config.update(work_dir=str(folder), resume=True, experiment_name=uuid4().hex)
        runner = Runner.from_cfg(config)
        runner.train()
        return runner

    def _config(self, name: str) -> Config:
        """Read a config of the miniature and set this run's data, seed and number of steps."""
        config = Config.fromfile(REPOSITORY / f'configs/miniature/{name}.py')
        config.randomness.seed = self.seed
        # Fewer videos would be another experiment: stop before a checkpoint depends on it
        config.default_hooks.bad_videos.update(max_share=0, interval=1)
        for key in LOADERS:
            if key in config:
                self._read_videos(config[key])
        unit = 'max_iters' if 'max_iters' in config.train_cfg else 'max_epochs'
        config.train_cfg[unit] = max(1, round(self.budget * config.train_cfg[unit]))
        for scheduler in config.param_scheduler:
            if 'end' in scheduler:
                scheduler.end = max(1, round(self.budget * scheduler.end))
        return config

    def _read_videos(self, loader: ConfigDict, classes: str = 'motion') -> None:
        dataset, data = loader.dataset, self.out / f'videos/{classes}_seed{self.seed}'
        videos = data / Path(dataset.ann_file).name
        dataset.update(ann_file=str(videos), data_prefix=dict(video=str(data)))
        dataset.cache = dict(folder=str(data / f'frames_{videos.stem}'))
        loader.num_workers = self.num_workers
        loader.persistent_workers = self.num_workers > 0

    def _note(self, **results: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.results(), **results}, indent=2) + '\n'
        replace_text(self.folder / 'results.json', text)


def origin() -> dict[str, str]:
    """Describe the present day, code and machine, on which rounding and thus results depend."""
    info = Path('/proc/cpuinfo')
    found = re.search(r'^model name\s*: (.*)', info.read_text() if info.is_file() else '', re.M)
    cpu = f'{found[1] if found else platform.machine()}, {usable_cores()} cores'
    git = ['git', '-C', str(REPOSITORY), 'describe', '--always', '--dirty']
    return {
        'date': str(datetime.now(timezone.utc).date()),
        'commit': subprocess.run(git, capture_output=True, text=True).stdout.strip(),
        'machine': torch.cuda.get_device_name() if torch.cuda.is_available() else cpu,
        'torch': torch.__version__,
    }

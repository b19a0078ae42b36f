"""Execute one run of the miniature: training and evaluation."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader

from cvrl_mm.convert.inflate import inflate_weights
from cvrl_mm.engine.checkpoint import find_checkpoints
from cvrl_mm.evaluation.features import build_recognizer, extract_features
from cvrl_mm.evaluation.linear_probe import frozen_accuracy, linear_probe
from cvrl_mm.io import replacing
from cvrl_mm.visualization.curves import read_curves

from origin import origin
from tables import FROZEN, TRANSFER
from training_process import LOG, training_process

FINETUNE = {
    'labels_1pct': 'semi_motion_1pct',
    'labels_10pct': 'semi_motion_10pct',
    'labels_all': 'finetune_motion',
}
LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader', 'features_dataloader')


@dataclass(frozen=True)
class Run:
    """One training of ``configs/miniature``, or 'random' for untrained weights.

    Attributes:
        name: Name of the config, without folder and suffix.
        seed: Seed of the training and of its videos.
        measures: Measures to compute, keys of ``tables.MEASURES``.
        data: Folder of the generated videos and their decoded frames.
        transfer_data: Folder of the videos of other classes.
        folder: Output folder of this run.
        repository: The folder that holds ``configs`` and ``tools``.
        budget: Factor for the number of steps or epochs in the config.
        num_workers: Workers per data loader.
    """

    name: str
    seed: int
    measures: frozenset[str]
    data: Path
    transfer_data: Path
    folder: Path
    repository: Path
    budget: float
    num_workers: int

    def results(self) -> dict[str, float]:
        """Return the measures of finished trainings.

        Raises:
            ValueError: Their file is damaged.
        """
        return self._read()[0]

    def origin(self) -> dict[str, str]:
        """Return where the last measure comes from, see :func:`~.origin.origin`.

        It is empty for an unfinished run, and for a run of a version that did not record it.
        """
        return self._read()[1]

    def _read(self) -> tuple[dict[str, float], dict[str, str]]:
        path = self.folder / 'results.json'
        try:
            results = json.loads(path.read_text()) if path.is_file() else {}
            came_from = {key: str(value) for key, value in results.pop('origin', {}).items()}
            measures = {measure: float(value) for measure, value in results.items()}
            if not all(0 <= value <= 1 for key, value in measures.items() if key != 'seconds'):
                raise ValueError
            return measures, came_from
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f'{path} is damaged. Remove it to measure this run again.') from None

    def execute(self) -> dict[str, float]:
        """Compute the missing measures; an interrupted training continues from its last checkpoint.

        Returns:
            Accuracies, 0 to 1, by measure, and ``seconds``, the time of all attempts.

        Raises:
            RuntimeError: A training failed; the message contains the end of its log.
        """
        torch.set_num_threads(1)
        register_all_modules()
        MMLogger.get_current_instance().setLevel('ERROR')
        start = time.perf_counter()
        missing = self.measures - set(self.results())
        if 'top1' in missing:
            self._note({'top1': self._train_labelled(self._config(self.name), self.folder)})
        elif missing:
            weights = self._pretrain()
            if missing & set(FROZEN):
                accuracy = frozen_accuracy(*self._frozen(weights, self.data))
                self._note({measure: accuracy[measure] for measure in FROZEN})
            if TRANSFER in missing:
                model, *batches = self._frozen(weights, self.transfer_data)
                train, test = (extract_features(model, split) for split in batches)
                self._note({TRANSFER: linear_probe(*train, *test)})
            for measure in sorted(missing & set(FINETUNE)):
                self._note({measure: self._finetune(measure, weights)})
        if missing:
            seconds = self.results().get('seconds', 0) + time.perf_counter() - start
            self._note({'seconds': seconds})
        return self.results()

    def _pretrain(self) -> Path | None:
        """Pre-train and return the checkpoint of the 3D backbone, or None for untrained weights."""
        if self.name == 'random':
            return None
        config = self._config(self.name)
        self._train(config, self.folder)
        _, checkpoint = max(find_checkpoints(self.folder, ['iter_{}.pth']))
        if config.model.backbone.get('conv1_stride_t', 2) != 1:
            return checkpoint
        inflated = self.folder / 'inflated.pth'  # from a network that was trained on single frames
        state = torch.load(checkpoint, map_location='cpu', weights_only=True)['state_dict']
        expected = build_recognizer(self._config('cvrl_motion')).backbone.state_dict()
        flat = {name: state[f'backbone.{name}'] for name in expected}
        torch.save({'state_dict': inflate_weights(flat, expected)}, inflated)
        return inflated

    def _frozen(self, weights: Path | None, data: Path) -> tuple[nn.Module, DataLoader, DataLoader]:
        """Build a network and the batches of the training and the test videos."""
        config = self._config('cvrl_motion')
        model = build_recognizer(config, str(weights) if weights else None).to(get_device())
        loaders = []
        for split in ('train', 'test'):
            loader = config.features_dataloader
            loader.dataset.ann_file = str(data / f'{split}.txt')
            loader.dataset.data_prefix = dict(video=str(data))
            loaders.append(Runner.build_dataloader(loader))
        return model, loaders[0], loaders[1]

    def _finetune(self, measure: str, weights: Path | None) -> float:
        config = self._config(FINETUNE[measure])
        init = dict(type='Pretrained', checkpoint=str(weights), prefix='backbone.')
        config.model.backbone.init_cfg = weights and init
        return self._train_labelled(config, self.folder / measure)

    def _train_labelled(self, config: Config, folder: Path) -> float:
        config.train_cfg.val_interval = config.train_cfg.max_epochs
        self._train(config, folder)
        accuracies = read_curves(folder).get('acc/top1')
        if not accuracies:
            # It was killed after its last checkpoint, before the validation, which the training
            # that continued from there has left out.
            for _, checkpoint in find_checkpoints(folder, ['epoch_{}.pth', 'preempted_{}.pth']):
                checkpoint.unlink()
            self._train(config, folder)
            accuracies = read_curves(folder)['acc/top1']
        return list(accuracies.values())[-1]

    def _config(self, name: str) -> Config:
        """Read a config of the miniature and set this run's data, seed and number of steps."""
        config = Config.fromfile(self.repository / f'configs/miniature/{name}.py')
        config.randomness.seed = self.seed
        # Fewer videos would be another experiment: stop before a checkpoint depends on it
        config.default_hooks.bad_videos.update(max_share=0, interval=1)
        for key in LOADERS:
            if key in config:
                self._read_decoded(config[key])
        unit = 'max_iters' if 'max_iters' in config.train_cfg else 'max_epochs'
        config.train_cfg[unit] = max(1, round(self.budget * config.train_cfg[unit]))
        for scheduler in config.param_scheduler:
            if 'end' in scheduler:
                scheduler.end = max(1, round(self.budget * scheduler.end))
        return config

    def _read_decoded(self, loader: ConfigDict) -> None:
        dataset = loader.dataset
        dataset.ann_file = str(self.data / Path(dataset.ann_file).name)
        dataset.data_prefix = dict(video=str(self.data))
        dataset.timeout_seconds = None  # arrays in memory do not hang
        dataset.pipeline = [
            dict(type='DecodedVideoInit') if step['type'] == 'VideoFileInit' else step
            for step in dataset.pipeline
        ]
        loader.num_workers = self.num_workers
        loader.persistent_workers = self.num_workers > 0
        if 'drop_last' in loader:  # a small set may hold fewer videos than a batch
            videos = len(Path(dataset.ann_file).read_text().splitlines())
            loader.batch_size = min(loader.batch_size, videos)

    def _train(self, config: Config, folder: Path) -> None:
        """Train; an interrupted training continues from its last checkpoint."""
        arguments = '--resume', 'auto'
        with training_process(config, folder, self.repository, 1, *arguments) as process:
            failed = process.wait()
        if failed:
            log = folder / LOG
            raise RuntimeError(f'Training failed; the end of {log}:\n{log.read_text()[-2000:]}')

    def _note(self, results: dict[str, float]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / 'results.json') as part:
            values = {**self.results(), **results, 'origin': origin(self.repository)}
            part.write_text(json.dumps(values, indent=2) + '\n')

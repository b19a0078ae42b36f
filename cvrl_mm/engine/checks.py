"""Checks at the start of a run, before time is lost."""

from collections.abc import Iterator, Mapping
from math import inf
from os.path import isfile, join
from typing import Any

from mmengine.dist import all_gather_object, get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner

from ..convert.description import read_config_text
from ..datasets.lists import check_labels, check_numbering
from ..io import file_sha256, type_name
from ..models.heads import check_head_channels
from .checkpoint import initial_weights, is_training
from .loops import check_has_batches
from .runtime import unwrapped_model

# Parts of a config that determine what a training learns, and what does not matter in them
RECIPE = (
    *('model', 'train_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg'),
    *('auto_scale_lr', 'custom_hooks', 'data_preprocessor', 'randomness', 'sync_bn'),
)
NONE = 'none', ''  # in place of a file and its digest
IRRELEVANT = ('num_workers', 'persistent_workers', 'prefetch_factor', 'pin_memory')


@HOOKS.register_module()
class ChecksHook(Hook):
    """Check the videos, labels, batches and initial weights of a run before its first step.

    - ``in_channels`` of the head matches the features of the backbone, which recognizers of
      MMAction2 do not compare.
    - If the head has ``num_classes``, every video in the lists of a ``VideoListDataset`` has a
      label of one of them. MMAction2 counts a wrong label of a test list as a wrong prediction. The
      lists number the classes alike, as far as a ``classes.txt`` beside each says it.
    - An epoch has at least one batch, and each batch of a contrastive head has negatives. If all
      batches of all ranks have the same size, the hook sets ``equal_batches`` of the head, so that
      the ranks do not exchange the sizes in each step.
    - A resumed training began with the weights that the config names in ``init_cfg`` and
      ``load_from``. Otherwise, evaluating a second checkpoint in the folder of the first
      evaluation would continue that one, or test it again if it is finished. Files are compared by
      their content, and one that no longer exists is still named. What the option ``load_from``
      has named must be in the config of ``--resume``.
    - A finished training is resumed, as by ``tools/train_and_test.sh``, only with its own config
      and lists, or for more steps with its own lists. Otherwise, the result of a test would be
      taken for that of settings or videos that no step, or only some of them, have used. One that
      was interrupted goes on, with a warning that names what has changed.
    - A classifier is tested on a list with the same classes in the same order, if both state them.
    """

    def before_run(self, runner: Runner) -> None:
        """Check the head and the lists, and read the initial weights.

        Raises:
            ValueError: The channels differ, a label is missing or out of range, or two lists
                number the classes differently.
        """
        if is_training(runner):
            self.lists = dict(_digests(runner.cfg.get('train_dataloader')))
            self.initial = dict(_initial_files(runner.cfg.get('model')))
            if (weights := initial_weights(runner)) != '':
                self.initial['load_from'] = _content(weights) if weights else NONE
        model = unwrapped_model(runner)
        head: Any = getattr(model, 'cls_head', None)
        if hasattr(head, 'in_channels') and not getattr(model, 'with_neck', False):
            check_head_channels(model.backbone, head.in_channels)
        if not hasattr(head, 'num_classes'):
            return
        lists = []
        for split in ('train', 'val', 'test'):
            dataset = (runner.cfg.get(f'{split}_dataloader') or {}).get('dataset', {})
            is_used = isinstance(getattr(runner, f'_{split}_loop'), BaseLoop)
            if type_name(dataset) == 'VideoListDataset' and (is_used or split == 'train'):
                if is_used:
                    check_labels(dataset, head.num_classes)
                lists.append(dataset.ann_file)
        check_numbering(*lists)

    def before_train(self, runner: Runner) -> None:
        """Check the batches.

        Raises:
            ValueError: An epoch has no batch, or a batch has no negatives.
        """
        loader, ranks = runner.train_dataloader, get_world_size()
        check_has_batches(loader)
        videos, batches = len(loader.dataset), loader.batch_sampler
        size = batches.batch_size * ranks
        head: Any = getattr(unwrapped_model(runner), 'cls_head', None)
        if not hasattr(head, 'equal_batches'):
            return
        last = 0 if batches.drop_last else len(batches.sampler) % batches.batch_size * ranks
        if 1 in (size, last):
            raise ValueError(
                f'{videos} videos in batches of {size} give a batch of one video, which has no '
                'negatives; set train_dataloader.batch_size to 2 or more and drop_last=True.'
            )
        sizes = all_gather_object((batches.batch_size, batches.drop_last))
        head.equal_batches = len(set(sizes)) == 1 and batches.drop_last

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the files of the initial weights and of the training list."""
        checkpoint['meta'] |= dict(initial_files=self.initial, lists=self.lists)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare the initial weights of a training, and the classes of a test, with the config's.

        Raises:
            ValueError: The training to resume began with other weights, or is finished and had
                another config or other lists; or the classifier to test has other classes than the
                test list.
        """
        meta = checkpoint.get('meta', {})
        if isinstance(runner._test_loop, BaseLoop):
            known = meta.get('dataset_meta') or {}
            classes = getattr(runner._test_loop.dataloader.dataset, 'metainfo', {}).get('classes')
            if classes and known.get('classes') and list(classes) != list(known['classes']):
                raise ValueError(
                    f'{runner._load_from} has other classes than the test list, or in another '
                    'order; test it with the config of its own training.'
                )
        former = meta.get('initial_files')
        if not (is_training(runner) and runner._resume) or former is None:
            return
        for name in former | self.initial:
            if name == 'load_from' and not (name in former and name in self.initial):
                continue  # one does not state it
            (before, old), (file, new) = (x.get(name, NONE) for x in (former, self.initial))
            if new not in (old, before):  # a file that is lost has its address as content
                raise ValueError(
                    f'The training to resume began with {name}={before}, but now it is '
                    f'{file}, with other content. Name the former in the config, or choose another '
                    '--work-dir (WORK_DIR for tools/train_and_test.sh).'
                )
        self.initial = former  # also what is lost
        trained, given = map(_recipe, (meta['cfg'], runner.cfg.pretty_text))
        trained, given = trained | self.lists | meta.get('lists', {}), given | self.lists
        differing = [name for name in given if trained[name] != given[name]]
        if not differing:
            return
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            done, end, unit = meta['epoch'], runner.max_epochs, 'max_epochs'
        else:
            done, end, unit = meta['iter'], runner.max_iters, 'max_iters'
        was_finished = done >= (trained['train_cfg'] or {}).get(unit, inf)
        has_other_lists = not self.lists.keys().isdisjoint(differing)
        if done >= end or (was_finished and has_other_lists):
            raise ValueError(
                f'The training in {runner.work_dir} is finished, and had another '
                f'{", ".join(differing)}. Choose another --work-dir (WORK_DIR for '
                'tools/train_and_test.sh); load_from starts from its weights.'
            )
        runner.logger.warning(
            f'The training to resume had another {", ".join(differing)}; it continues with that of '
            'the config now.'
        )


def _recipe(text: str) -> dict[str, Any]:
    """Read what determines a training from the text of its config."""
    config = read_config_text(text)
    return {name: _relevant(config.get(name)) for name in RECIPE}


def _relevant(config: Any, name: str = '') -> Any:
    if isinstance(config, Mapping):
        left_out = (*IRRELEVANT, _weights_key(name))  # weights are compared by content
        return {
            k: _relevant(v, f'{name}.{k}')
            for k, v in config.items()
            if k not in left_out and not (k == 'init_cfg' and not v)
        }
    if name.endswith('_file') and isinstance(config, str) and '://' not in config:
        return ''  # such as ann_file; the content is compared
    return [_relevant(x, name) for x in config] if isinstance(config, list | tuple) else config


def _weights_key(name: str) -> str:
    """Return the key of a checkpoint's path in the dict of this dotted name in a config.

    It is that of an ``init_cfg``, or ``pretrained``, as MMAction2's backbones have it.
    """
    return 'checkpoint' if '.init_cfg' in name else 'pretrained'


def _dicts(config: object, name: str) -> Iterator[tuple[str, Mapping]]:
    """Yield all dicts in a config with their dotted names."""
    if isinstance(config, list | tuple):
        config = dict(enumerate(config))
    if isinstance(config, Mapping):
        yield name, config
        for key, value in config.items():
            yield from _dicts(value, f'{name}.{key}')


def _digests(loader: object) -> Iterator[tuple[str, str]]:
    """Yield the key and the digest of each file that the config of a data loader names."""
    for name, fields in _dicts(loader, 'content of train_dataloader'):
        for key, value in fields.items():
            file = join(fields.get('data_root') or '', value) if isinstance(value, str) else ''
            if isfile(file):
                yield f'{name}.{key}', file_sha256(file)


def _initial_files(model: object) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the key and the content of each checkpoint that the config of a model names."""
    for name, fields in _dicts(model, 'model'):
        if file := fields.get(_weights_key(name)):
            yield name, _content(str(file))


def _content(file: str) -> tuple[str, str]:
    """Return the address of a file, and its digest or, where there is no file, the address."""
    return file, file_sha256(file) if isfile(file) else file

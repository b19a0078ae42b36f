"""The detection configs follow the paper and differ only in what their names say."""

from pathlib import Path

import pytest
from mmengine.config import Config

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'
DATA = [f'ava{version}_{source}' for version in (21, 22) for source in ('frames', 'videos')]
STARTS = {
    'random': None,
    'cvrl': 'work_dirs/pretrain_k400/epoch_800.pth',
    'imagenet': 'checkpoints/r3d50_imagenet_inflated.pth',
    'simclr': 'checkpoints/r3d50_simclr_inflated.pth',
    'supervised': 'work_dirs/supervised_k400/epoch_200.pth',
}


# torchvision's, of 255
IMAGENET = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])


def load(name: str) -> dict:
    return Config.fromfile(CONFIGS / f'{name}.py').to_dict()


def test_table_5s_columns_differ_in_their_weights_and_the_pixels_of_pretraining():
    for start, checkpoint in STARTS.items():
        expected = load('ava22_videos_cvrl')
        pixels = expected['model']['data_preprocessor']
        assert (pixels['mean'], pixels['std']) == ([0.0] * 3, [255.0] * 3)  # in [0, 1]
        init = dict(type='Pretrained', checkpoint=checkpoint, prefix='backbone.')
        expected['model']['backbone']['init_cfg'] = init if checkpoint else None
        pixels.update(IMAGENET if start == 'imagenet' else {})
        found = load(f'ava22_videos_{start}')
        found.pop('imagenet_pixels', None)
        assert found == expected, start


@pytest.mark.parametrize('data', DATA)
def test_frames_and_videos_show_the_same(data: str):
    cfg = load(f'{data}_cvrl')
    for split in ('train', 'val'):
        dataset = cfg[f'{split}_dataloader']['dataset']
        reader = dataset['pipeline'][0]
        assert (reader['clip_len'], reader['frame_interval']) == (32, 2)
        assert dataset.get('use_frames', True) == ('frames' in data)
        annotations = {dataset[k] for k in ('ann_file', 'exclude_file', 'label_file')}
        assert all(f'v{data[3]}.{data[4]}' in name and '..' not in name for name in annotations)
    evaluator = cfg['val_evaluator']
    assert {evaluator[k] for k in ('ann_file', 'exclude_file', 'label_file')} == annotations
    assert cfg['test_dataloader'] == cfg['val_dataloader']
    assert cfg['test_evaluator'] == cfg['val_evaluator']
    frames = load(f'ava{data[3:5]}_frames_cvrl')
    for split in ('train', 'val'):
        views = [d[f'{split}_dataloader']['dataset']['pipeline'] for d in (cfg, frames)]
        first = [[step['type'] for step in view].index('FormatShape') for view in views]
        assert views[0][1 if 'videos' in data else 2 :] == views[1][2:], first


def test_the_schedule_is_the_papers():
    cfg = load('ava21_frames_cvrl')
    optimizer = cfg['optim_wrapper']['optimizer']
    assert (optimizer['type'], optimizer['lr'], optimizer['momentum']) == ('SGD', 0.2, 0.9)
    assert cfg['train_cfg']['max_epochs'] == 12
    warmup, steps = cfg['param_scheduler']
    assert warmup['type'] == 'LinearLR'
    assert (steps['milestones'], steps['gamma']) == ([8, 11], 0.1)
    assert 8 * cfg['train_dataloader']['batch_size'] == 32
    assert cfg['auto_scale_lr']['base_batch_size'] == 32
    backbone = cfg['model']['backbone']
    assert backbone['spatial_strides'] == (1, 2, 2, 1)  # stage 5 keeps the resolution
    assert 'frozen_stages' not in backbone and 'norm_eval' not in backbone  # all layers train
    head = cfg['model']['roi_head']['bbox_head']
    # SlowFast; before the maximum over 7 x 7, it would drop next to nothing
    assert head['dropout_ratio'] == 0.5 and not head['dropout_before_pool']
    assert cfg['test_dataloader']['dataset']['key_seconds'] == (902, 1798)  # all of the benchmark
    assert 'key_seconds' not in cfg['train_dataloader']['dataset']


@pytest.mark.parametrize('data', DATA)
def test_the_proposal_network_is_all_that_is_added(data: str):
    cfg, expected = load(f'{data}_rpn_cvrl'), load(f'{data}_cvrl')
    assert cfg['model'].pop('rpn_head') and cfg['model']['test_cfg'].pop('rpn')
    assert cfg['test_dataloader']['dataset'].get('proposal_file') is None
    for each in (cfg, expected):
        del each['model']['type'], each['model']['train_cfg']
        for name in ('train', 'val', 'test'):
            each[f'{name}_dataloader']['dataset'].pop('proposal_file', None)
    assert cfg == expected

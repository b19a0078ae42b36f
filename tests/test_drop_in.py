"""Our parts in MMAction2's own configs, one at a time, and its backbones under our recognizer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.apis import MMAction2Inferencer
from mmaction.registry import DATASETS, MODELS
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from torch import nn

from cvrl_mm.synthetic.motion import encode
from tests.configs.small import make_small
from tests.tiny import linear_config, save_backbone

SLOWONLY = 'recognition/slowonly/slowonly_r50_8xb16-4x16x1-256e_kinetics400-rgb.py'
TSN = 'recognition/tsn/tsn_imagenet-pretrained-r50_8xb32-1x1x3-100e_kinetics400-rgb.py'

SMALL_SLOWONLY = dict(backbone=dict(depth=18, base_channels=8), cls_head=dict(in_channels=64))
SMALL_TSN = dict(backbone=dict(depth=18, pretrained=None), cls_head=dict(in_channels=512))
OUR_TRANSFORMS = [
    dict(type='ClipColorJitter', prob=1.0),
    dict(type='ClipGrayscale', prob=0.5),
    dict(type='ClipGaussianBlur', kernel_size=5),
    dict(type='ClipSolarize', prob=0.5),
]


@pytest.fixture(scope='module')
def videos(tmp_path_factory) -> Path:
    pytest.importorskip('decord')  # the stock pipelines read with it
    folder = tmp_path_factory.mktemp('videos')
    rng = np.random.default_rng(0)
    for number in range(2):
        encode(folder / f'{number}.mp4', rng.integers(0, 256, (40, 48, 64, 3), dtype=np.uint8))
    (folder / 'list.txt').write_text('0.mp4 3\n1.mp4 7\n')
    return folder


def leaf_of(stock: str, folder: Path, **changes: object) -> Config:
    """Parse a config of one's own that inherits from a stock one."""
    lines = [f"_base_ = 'mmaction::{stock}'", *(f'{k} = {v!r}' for k, v in changes.items())]
    (folder / 'leaf.py').write_text('\n'.join(lines))
    return Config.fromfile(folder / 'leaf.py')


def load(cfg: Config, pipeline: list[dict], videos: Path) -> dict:
    """Load a batch of both videos through the stock dataset, with small frames."""
    for step in pipeline:
        make_small(step)
    dataset = {
        **cfg.train_dataloader.dataset,
        'ann_file': str(videos / 'list.txt'),
        'data_prefix': dict(video=str(videos)),
        'pipeline': pipeline,
    }
    dataset = DATASETS.build(dataset)
    return pseudo_collate([dataset[0], dataset[1]])


def train_once(model: nn.Module, batch: dict) -> dict[str, torch.Tensor]:
    """Run the forward and backward pass of a step and return what it would log."""
    torch.manual_seed(0)
    data = model.data_preprocessor(batch, training=True)
    losses = model(**data, mode='loss')
    loss, logged = model.parse_losses(losses)
    loss.backward()
    assert torch.isfinite(loss)
    reached = [p.grad is not None and p.grad.any() for p in model.backbone.parameters()]
    assert sum(reached) / len(reached) > 0.95  # a frozen part would not be reached
    return logged


def replace(pipeline: list[dict], kind: str, *by: dict) -> list[dict]:
    place = next(i for i, step in enumerate(pipeline) if step['type'] == kind)
    return [*pipeline[:place], *by, *pipeline[place + 1 :]]


def test_slowonly_with_our_weights(tmp_path: Path, videos: Path):
    checkpoint = save_backbone(tmp_path / 'cvrl.pth')
    init_cfg = dict(type='Pretrained', checkpoint=str(checkpoint), prefix='backbone.')
    backbone = dict(_delete_=True, type='R3DSlow', depth=18, width=0.125, init_cfg=init_cfg)
    changes = dict(backbone=backbone, cls_head=dict(in_channels=64))
    cfg = leaf_of(SLOWONLY, tmp_path, model=changes)
    model = MODELS.build(cfg.model)
    model.init_weights()
    weights = torch.load(checkpoint)['state_dict']
    for name, weight in model.backbone.state_dict().items():
        torch.testing.assert_close(weight, weights[f'backbone.{name}'], msg=name)
    logged = train_once(model, load(cfg, cfg.train_pipeline, videos))
    assert 0 < logged['loss_cls'] < 12  # 400 classes: ln(400) = 6


def test_tsn_with_our_transforms(tmp_path: Path, videos: Path):
    cfg = leaf_of(TSN, tmp_path, model=SMALL_TSN)
    np.random.seed(0)
    ours = [*OUR_TRANSFORMS, dict(type='FormatShape', input_format='NCHW')]
    batch = load(cfg, replace(cfg.train_pipeline, 'FormatShape', *ours), videos)
    np.random.seed(0)
    plain = load(cfg, cfg.train_pipeline, videos)
    for ours, theirs in zip(batch['inputs'], plain['inputs'], strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert not torch.equal(ours, theirs)
    train_once(MODELS.build(cfg.model), batch)


def test_slowonly_with_our_sampler(tmp_path: Path, videos: Path):
    """A supervised 3D recognizer is tested, not trained, on several clips a video."""
    cfg = leaf_of(SLOWONLY, tmp_path, model=SMALL_SLOWONLY)
    sampler = dict(type='TemporalIntervalSample', clip_len=4, frame_interval=2)
    batch = load(cfg, replace(cfg.val_pipeline, 'SampleFrames', sampler), videos)
    model = MODELS.build(cfg.model).eval()
    samples = model.test_step(batch)
    for sample in samples:
        assert sample.pred_score.sum().item() == pytest.approx(1, abs=1e-5)


def test_stock_backbone_under_our_recognizer(tmp_path: Path, videos: Path):
    head = dict(type='InfoNCEHead', in_channels=432, hidden_channels=16, out_channels=8)
    backbone = dict(type='X3D', gamma_w=1, gamma_b=2.25, gamma_d=1)
    model = dict(_delete_=True, type='CVRL', backbone=backbone, cls_head=head)
    model['data_preprocessor'] = dict(type='ActionDataPreprocessor', format_shape='NCTHW')
    cfg = leaf_of(SLOWONLY, tmp_path, model=model)
    sampler = dict(type='TemporalIntervalSample', clip_len=8, frame_interval=2)
    batch = load(cfg, replace(cfg.train_pipeline, 'SampleFrames', sampler), videos)
    logged = train_once(MODELS.build(cfg.model), batch)
    assert set(logged) >= {'loss', 'accuracy', 'entropy'}


def test_mmactions_inferencer_takes_an_evaluation_config(motion_set: Path, tmp_path: Path):
    pytest.importorskip('decord')
    cfg = linear_config(str(motion_set), str(motion_set))
    cfg.model.backbone.init_cfg = None
    cfg.dump(tmp_path / 'config.py')
    torch.save(dict(state_dict=MODELS.build(cfg.model).state_dict()), tmp_path / 'a.pth')
    files = dict(rec=str(tmp_path / 'config.py'), rec_weights=str(tmp_path / 'a.pth'))
    found = MMAction2Inferencer(**files, device='cpu')(str(next(motion_set.rglob('*.mp4'))))
    (scores,) = found['predictions'][0]['rec_scores']
    assert len(scores) == 16 and sum(scores) == pytest.approx(1, abs=1e-3)

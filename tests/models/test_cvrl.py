import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MODELS.build(
        dict(
            type='CVRL',
            backbone=dict(type='R3DSlow', depth=18, width=0.125),
            cls_head=dict(type='InfoNCEHead', in_channels=64, hidden_channels=16, out_channels=8),
            data_preprocessor=dict(
                type='ActionDataPreprocessor',
                mean=[0, 0, 0],
                std=[255, 255, 255],
                format_shape='NCTHW',
            ),
        )
    )


def videos(num: int, clips: int = 2) -> dict:
    inputs = [torch.randint(256, (clips, 3, 4, 32, 32), dtype=torch.uint8) for _ in range(num)]
    return dict(inputs=inputs, data_samples=[ActionDataSample() for _ in range(num)])


def test_loss_contrasts_the_two_clips_of_a_video(model):
    data = model.data_preprocessor(videos(3), training=True)
    losses = model(**data, mode='loss')
    feats = model(data['inputs'], mode='tensor')
    assert feats.shape == (6, 64, 2, 1, 1)
    z = model.cls_head(feats).unflatten(0, (3, 2))
    torch.testing.assert_close(losses['loss'], model.cls_head.contrast(z)['loss'])
    total, _ = model.parse_losses(losses)
    torch.testing.assert_close(total, losses['loss'])


def test_training_lowers_the_loss(model):
    data = model.data_preprocessor(videos(4), training=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(12):
        loss = model(**data, mode='loss')['loss']
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_predict_embeds_a_video_of_any_number_of_clips(model):
    model.eval()
    data = model.data_preprocessor(videos(2, clips=3), training=False)
    samples = model(**data, mode='predict')
    assert [s.embedding.shape for s in samples] == [(8,), (8,)]
    torch.testing.assert_close(samples[0].embedding.norm(), torch.tensor(1.0))
    one = model(data['inputs'][1:], data['data_samples'][1:], mode='predict')[0]
    torch.testing.assert_close(one.embedding, samples[1].embedding)


def test_refuses_other_than_two_clips(model):
    data = model.data_preprocessor(videos(2, clips=3), training=True)
    with pytest.raises(ValueError, match='two clips per video'):
        model(**data, mode='loss')


@pytest.mark.parametrize('chunk_size', [None, 2])
@pytest.mark.parametrize('preprocessor', ['ActionDataPreprocessor', 'ClipDataPreprocessor'])
def test_a_stacked_batch_gives_the_loss_of_a_list(preprocessor: str, chunk_size: int | None):
    model = MODELS.build(
        dict(
            type='CVRL',
            chunk_size=chunk_size,
            backbone=dict(type='R3DSlow', depth=18, width=0.125),
            cls_head=dict(type='InfoNCEHead', in_channels=64, hidden_channels=16),
            data_preprocessor=dict(
                type=preprocessor, mean=[0] * 3, std=[255] * 3, format_shape='NCTHW'
            ),
        )
    )
    listed = videos(4)
    stacked = {**listed, 'inputs': torch.stack(listed['inputs'])}
    losses = [
        model(**model.data_preprocessor(data, training=True), mode='loss')['loss']
        for data in (listed, stacked)
    ]
    assert torch.equal(*losses)


def config(**head) -> dict:
    backbone = dict(type='R3DSlow', depth=18, width=0.125)
    return dict(type='CVRL', backbone=backbone, cls_head=dict(type='InfoNCEHead', **head))


def test_head_takes_the_channels_of_the_backbone():
    assert MODELS.build(config()).cls_head.projection[0].in_features == 64
    several = config()
    several['backbone']['out_indices'] = (2, 3)
    assert MODELS.build(several).cls_head.projection[0].in_features == 32 + 64


def test_another_number_of_channels_is_refused_when_the_model_is_built():
    with pytest.raises(ValueError, match=r'in_channels=512, but the features .* have 64'):
        MODELS.build(config(in_channels=512))

import torch

from cvrl_mm.models.batch_transfer import BatchTransfer

CPU = torch.device('cpu')


def test_a_stacked_batch_stays_one_tensor():
    batch = torch.randint(256, (3, 2, 4), dtype=torch.uint8)
    assert BatchTransfer()(batch, CPU) is batch


def test_listed_samples_are_stacked_and_padded():
    samples = [torch.ones(1, 2, 3), torch.ones(1, 1, 3)]
    stacked = BatchTransfer()(samples, CPU)
    assert torch.equal(stacked, torch.tensor([[[[1.0] * 3] * 2], [[[1.0] * 3, [0.0] * 3]]]))

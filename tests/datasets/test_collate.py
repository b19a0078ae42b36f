import gc

import psutil
import pytest
import torch
from mmaction.structures import ActionDataSample
from torch.utils.data import DataLoader, Dataset

from cvrl_mm.datasets import stack_collate
from cvrl_mm.datasets.collate import _mapped, forget_ended_workers

SHAPE = (2, 3, 2, 4, 4)


class Videos(Dataset):
    def __init__(self, length: int = 24) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict:
        sample = ActionDataSample(metainfo=dict(filename=f'{index}.mp4', unreadable=[]))
        sample.set_gt_label(index)
        return dict(inputs=torch.full(SHAPE, index, dtype=torch.uint8), data_samples=sample)


def loader(workers: int, length: int = 24) -> DataLoader:
    return DataLoader(
        Videos(length), 4, num_workers=workers, collate_fn=stack_collate, timeout=60 * (workers > 0)
    )


@pytest.mark.parametrize('workers', [0, 2])
def test_gives_the_inputs_and_the_samples_in_order(workers: int):
    batches = list(loader(workers, length=22))  # the last one is smaller
    inputs = torch.cat([batch['inputs'] for batch in batches])
    samples = [sample for batch in batches for sample in batch['data_samples']]
    expected = [Videos()[i] for i in range(22)]
    assert torch.equal(inputs, torch.stack([e['inputs'] for e in expected]))
    for sample, other in zip(samples, (e['data_samples'] for e in expected), strict=True):
        assert isinstance(sample, ActionDataSample)
        assert sample.metainfo == other.metainfo
        assert torch.equal(sample.gt_label, other.gt_label)


class ChannelsLast(Videos):
    def __getitem__(self, index: int) -> dict:
        frames = torch.rand(2, 2, 4, 5, 3, generator=torch.Generator().manual_seed(index))
        return {**super().__getitem__(index), 'inputs': frames.permute(0, 4, 1, 2, 3)}


def test_the_number_of_workers_changes_neither_values_nor_strides():
    batches = [
        next(iter(DataLoader(ChannelsLast(), 4, num_workers=n, collate_fn=stack_collate)))['inputs']
        for n in (0, 1)
    ]
    assert torch.equal(*batches)
    assert batches[0].stride() == batches[1].stride() == (240, 120, 1, 60, 15, 3)


def test_a_batch_that_is_referred_to_is_not_overwritten():
    kept, views = [], []
    for number, batch in enumerate(loader(1, length=80)):
        if number % 3 == 0:
            kept.append((number, batch['inputs']))
        if number % 3 == 1:
            views.append((number, batch['inputs'][1:, 0]))
    for number, inputs in kept:
        assert (inputs == torch.arange(4).view(4, 1, 1, 1, 1, 1) + 4 * number).all()
    for number, clips in views:
        assert (clips == torch.arange(1, 4).view(3, 1, 1, 1, 1) + 4 * number).all()


def test_buffers_are_reused_and_cost_no_descriptor_per_batch():
    gc.collect()
    forget_ended_workers()
    process, before = psutil.Process(), len(_mapped)
    addresses, descriptors = set(), []
    for batch in loader(2, length=200):
        addresses.add(batch['inputs'].data_ptr())
        del batch
        descriptors.append(process.num_fds())
    assert len(addresses) <= 2 * 4  # prefetched batches of each worker, and the one in use
    assert len(_mapped) - before <= 2 * 4
    assert max(descriptors) - min(descriptors) <= 2 * 4  # one per buffer, not one per batch
    assert max(descriptors) - descriptors[0] <= 2 * 4 * 2


def test_memory_of_ended_workers_is_unmapped():
    batches = iter(loader(1))
    kept = next(batches)['inputs']
    for _ in batches:
        pass
    del batches
    gc.collect()
    assert _mapped
    forget_ended_workers()
    assert not _mapped
    assert (kept[3] == 3).all()  # its own reference is left


def test_inputs_of_several_shapes_are_refused():
    shapes = [(2, 3), (2, 4)]
    with pytest.raises(RuntimeError, match=r'equal size.*\[2, 4\]'):
        stack_collate([dict(inputs=torch.zeros(s), data_samples=None) for s in shapes])

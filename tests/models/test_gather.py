from pathlib import Path

import torch
from mmengine.dist import get_rank
from torch import Tensor

from cvrl_mm.models.gather import gather_rows
from tests.ranks import run_ranks

SIZES = [2, 3, 1]
ONES = torch.ones(1, 2)


def gather_and_differentiate() -> dict[str, Tensor]:
    """Gather rows that say whose they are; every rank's loss weighs them by its own weights."""
    rank = get_rank()
    x = torch.full((SIZES[rank], 2), float(rank), requires_grad=True)
    rows, first = gather_rows(x)
    weights = torch.arange(rows.numel(), dtype=torch.float).view_as(rows) * (rank + 1)
    (rows * weights).sum().backward()
    return dict(rows=rows.detach(), first=torch.tensor(first), grad=x.grad)


def test_rows_stand_in_order_and_gradients_are_summed(tmp_path: Path):
    results = run_ranks(gather_and_differentiate, 3, tmp_path)
    whose = torch.repeat_interleave(torch.arange(3.0), torch.tensor(SIZES))[:, None].expand(6, 2)
    summed = torch.arange(12.0).view(6, 2) * (1 + 2 + 3)
    for rank, result in enumerate(results):
        torch.testing.assert_close(result['rows'], whose.contiguous())
        first = sum(SIZES[:rank])
        assert result['first'] == first
        torch.testing.assert_close(result['grad'], summed[first : first + SIZES[rank]])


def gather_equal(rows: int, equal: bool) -> tuple[Tensor, int]:
    return gather_rows(torch.full((rows, 2), float(get_rank())), equal)


def test_equal_sizes_are_not_exchanged_and_give_the_same_rows(tmp_path: Path):
    for rows in (1, 3):
        for known in (False, True):
            (folder := tmp_path / f'{rows}_{known}').mkdir()
            for rank, (found, first) in enumerate(run_ranks(gather_equal, 2, folder, rows, known)):
                assert torch.equal(found, torch.arange(2.0).repeat_interleave(rows)[:, None] * ONES)
                assert first == rank * rows


def test_one_process_keeps_its_rows():
    x = torch.randn(3, 2)
    rows, first = gather_rows(x)
    assert rows is x and first == 0

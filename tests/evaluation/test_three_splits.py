import json
from pathlib import Path

import pytest

from cvrl_mm.evaluation.three_splits import three_splits


def finish(work_dir: Path, time: str, **metrics: float) -> Path:
    (work_dir / time).mkdir(parents=True)
    (work_dir / time / f'{time}.json').write_text(json.dumps(metrics))
    return work_dir


@pytest.fixture
def work_dirs(tmp_path: Path) -> list[Path]:
    accuracies = (0.92, 0.9, 0.94)
    return [
        finish(tmp_path / f's{i}', '20260102_000000', **{'acc/top1': a})
        for i, a in enumerate(accuracies)
    ]


def test_gives_split_1_and_the_mean(work_dirs: list[Path]):
    assert three_splits(work_dirs) == pytest.approx((0.92, 0.92))
    assert three_splits(work_dirs[::-1]) == pytest.approx((0.94, 0.92))


def test_the_last_test_counts_and_logs_of_training_do_not(work_dirs: list[Path]):
    finish(work_dirs[0], '20260101_000000', **{'acc/top1': 0.1})
    finish(work_dirs[0], '20260103_000000', **{'acc/top1': 0.62})
    finish(work_dirs[0], '20260104_000000', loss=0.3)
    log = work_dirs[0] / '20260105_000000'
    log.mkdir()
    (log / 'scalars.json').write_text('{"acc/top1": 0.2}\n{"acc/top1": 0.3}')
    assert three_splits(work_dirs)[0] == 0.62


def test_a_split_without_a_test_is_named(work_dirs: list[Path], tmp_path: Path):
    finish(tmp_path / 'empty', '20260101_000000', loss=0.3)
    with pytest.raises(FileNotFoundError, match=r'empty has no result.*--work-dir'):
        three_splits([*work_dirs[:2], tmp_path / 'empty'])


def test_a_split_named_twice_is_refused(work_dirs: list[Path]):
    with pytest.raises(ValueError, match='Three different folders'):
        three_splits([work_dirs[0], work_dirs[1], work_dirs[0] / '..' / 's0'])

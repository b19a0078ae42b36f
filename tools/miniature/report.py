"""Write the report of the miniature: claims and tables."""

import csv
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import ttest_rel

from tables import CLAIMS, MEASURES, TABLES, Claim, Row

Results = Mapping[str, Mapping[int, Mapping[str, float]]]  # run, seed, measure


def write_report(folder: Path, results: Results, settings: Mapping[str, object]) -> None:
    """Write ``miniature.md``, and all results as ``miniature.csv``.

    Args:
        folder: Folder to write to.
        results: Accuracies, 0 to 1. A run, a seed or a measure may be missing.
        settings: Settings and machine of the runs, which are listed at the top.
    """
    lines = [
        '# The paper in miniature',
        '',
        'Written by `tools/miniature/run.py`. Accuracy on the held-out generated videos in %, mean '
        '± standard deviation over the seeds. All rows of a seed use the same videos. '
        "The paper's number on Kinetics-400 is in brackets: compare the order, not "
        'the value. `miniature.csv` has the results of all runs.',
        '',
        *(f'- {name}: {value}' for name, value in settings.items()),
        '',
        "## The paper's claims",
        '',
        'Difference of accuracies in percentage points, paired by seed, with its 95 % interval '
        "(Student's t). An order is stated only if the interval excludes zero. The intervals "
        'are not corrected for the number of claims. A control is not in the paper.',
        '',
        '| claim | paper | difference | seeds | result |',
        '|---|---|---|---|---|',
        *(line for claim in CLAIMS for line in _verdict(claim, results)),
        '',
        '## All rows',
    ]
    for measures in dict.fromkeys(table.measures for table in TABLES.values()):
        lines += ['', *_markdown(measures, results)]
    lines += ['', *(f'- {t.source}: {t.title}. {t.note}'.rstrip() for t in TABLES.values())]
    (folder / 'miniature.md').write_text('\n'.join(lines) + '\n')
    with (folder / 'miniature.csv').open('w', newline='') as file:
        columns = ['run', 'seed', *MEASURES]
        writer = csv.DictWriter(file, columns, extrasaction='ignore', lineterminator='\n')
        writer.writeheader()
        for run, seeds in results.items():
            for seed, measured in sorted(seeds.items()):
                writer.writerow(dict(measured, run=run, seed=seed))


def compare(claim: Claim, results: Results) -> tuple[float, float, float, int] | None:
    """Compare the two rows of a claim over the seeds that both have.

    For one seed, both rows use the same videos, so that a set which is easier for both does not
    change the difference. The accuracy of a supervised training is its ``top1``.

    Args:
        claim: One of ``CLAIMS``.
        results: Accuracies, 0 to 1.

    Returns:
        The mean difference in percentage points, both ends of its 95 % interval (Student's t) and
        the number of seeds, or None if fewer than two seeds have both rows.
    """
    higher, lower = (
        {seed: m.get(claim.measure, m.get('top1')) for seed, m in results.get(run, {}).items()}
        for run in (claim.higher, claim.lower)
    )
    pairs = [
        (100 * higher[seed], 100 * lower[seed])
        for seed in sorted(higher.keys() & lower.keys())
        if higher[seed] is not None and lower[seed] is not None
    ]
    if len(pairs) < 2:
        return None
    highs, lows = zip(*pairs, strict=True)
    interval = ttest_rel(highs, lows).confidence_interval(0.95)
    return mean(highs) - mean(lows), float(interval.low), float(interval.high), len(pairs)


def _verdict(claim: Claim, results: Results) -> list[str]:
    """Return the line of a claim, or nothing if its rows have not been run."""
    found = compare(claim, results)
    if found is None:
        return []
    difference, low, high, seeds = found
    opposite = 'opposite' if high < 0 else 'no difference shown'
    return [
        f'| {claim.what} | {claim.source} | {difference:+.1f} [{low:+.1f}, {high:+.1f}] '
        f'| {seeds} | {"shown" if low > 0 else opposite} |'
    ]


def _markdown(measures: tuple[str, ...], results: Results) -> list[str]:
    """Return the table of all rows with these measures that have been run."""
    lines = [
        f'| | {" | ".join(MEASURES[measure] for measure in measures)} | seeds |',
        f'|---|{"---|" * len(measures)}---|',
    ]
    for table in TABLES.values():
        for row in table.rows if table.measures == measures else ():
            values = [row_values(results, row, measure) for measure in measures]
            if any(values):
                cells = [_cell(*pair) for pair in zip_longest(values, row.paper)]
                seeds = max(map(len, values))
                lines.append(f'| {table.source}: {row.what} | {" | ".join(cells)} | {seeds} |')
    return lines


def row_values(results: Results, row: Row, measure: str) -> list[float]:
    """Return the values of a row in percent, in the order of the seeds."""
    seeds = sorted(results.get(row.run, {}).items())
    return [100 * result[measure] for _, result in seeds if measure in result]


def _cell(measured: list[float], paper: float | None) -> str:
    ours = f'{mean(measured):.1f}' if measured else 'not run'
    if len(measured) > 1:
        ours += f' ± {stdev(measured):.1f}'
    return ours if paper is None else f'{ours} ({paper:.1f})'

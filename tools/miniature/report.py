"""Write the report of the miniature: claims and tables."""

import csv
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import ttest_rel

from tables import CLAIMS, MEASURES, TABLES, Claim, Row, Table

Results = Mapping[str, Mapping[int, Mapping[str, float]]]  # run, seed, measure


def write_report(
    folder: Path, tables: Sequence[str], results: Results, settings: Mapping[str, object]
) -> Path:
    """Write ``miniature.md``, and all results as ``miniature.csv``.

    Args:
        folder: Folder to write to.
        tables: Keys of ``TABLES``. Tables with results in fewer than two rows are left out.
        results: Accuracies, 0 to 1. A run, a seed or a measure may be missing.
        settings: Settings and machine of the runs, which are listed at the top.

    Returns:
        The path of ``miniature.md``.
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
        *_claims(results),
    ]
    for name in tables:
        table = TABLES[name]
        if sum(any(row_values(results, row, m) for m in table.measures) for row in table.rows) < 2:
            continue
        lines += ['', f'## {table.title}', '', *_markdown(table, results)]
        if table.note:
            lines += ['', table.note]
    _write_csv(results, folder / 'miniature.csv')
    path = folder / 'miniature.md'
    path.write_text('\n'.join(lines) + '\n')
    return path


def _write_csv(results: Results, path: Path) -> None:
    """Write one line per run: its config, its seed, and its accuracies from 0 to 1."""
    with path.open('w', newline='') as file:
        columns = ['run', 'seed', *MEASURES]
        writer = csv.DictWriter(file, columns, extrasaction='ignore', lineterminator='\n')
        writer.writeheader()
        for run, seeds in results.items():
            for seed, measures in sorted(seeds.items()):
                writer.writerow(dict(measures, run=run, seed=seed))


def row_values(results: Results, row: Row, measure: str) -> list[float]:
    """Return the values of a row in percent, in the order of the seeds."""
    seeds = sorted(results.get(row.run, {}).items())
    return [100 * result[measure] for _, result in seeds if measure in result]


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


def _claims(results: Results) -> list[str]:
    """Return the table of the claims for which both rows have been run."""
    rows = []
    for claim in CLAIMS:
        if found := compare(claim, results):
            difference, low, high, seeds = found
            opposite = 'opposite' if high < 0 else 'no difference shown'
            rows.append(
                f'| {claim.what} | {claim.source} | {difference:+.1f} [{low:+.1f}, {high:+.1f}] '
                f'| {seeds} | {"shown" if low > 0 else opposite} |'
            )
    if not rows:
        return []
    return [
        '',
        "## The paper's claims",
        '',
        'Difference of accuracies in percentage points, paired by seed, with its 95 % interval '
        "(Student's t). An order is stated only if the interval excludes zero. The intervals "
        'are not corrected for the number of claims. A control is not in the paper.',
        '',
        '| claim | paper | difference | seeds | result |',
        '|---|---|---|---|---|',
        *rows,
    ]


def _markdown(table: Table, results: Results) -> list[str]:
    lines = [
        f'| | {" | ".join(MEASURES[measure] for measure in table.measures)} | seeds |',
        f'|---|{"---|" * len(table.measures)}---|',
    ]
    for row in table.rows:
        values = {measure: row_values(results, row, measure) for measure in table.measures}
        cells = [_cell(values[m], p) for m, p in zip_longest(table.measures, row.paper)]
        counts = {len(measured) for measured in values.values() if measured} or {0}
        seeds = ' or '.join(str(count) for count in sorted(counts))
        lines.append(f'| {row.what} | {" | ".join(cells)} | {seeds} |')
    return lines


def _cell(measured: list[float], paper: float | None) -> str:
    ours = 'not run' if not measured else f'{mean(measured):.1f}'
    if len(measured) > 1:
        ours += f' ± {stdev(measured):.1f}'
    return ours if paper is None else f'{ours} ({paper:.1f})'

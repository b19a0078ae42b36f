"""Write the report of the miniature: claims, tables and plots."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from matplotlib.figure import Figure

from claims import CLAIMS, compare
from tables import MEASURES, TABLES, Row, Table

Results = Mapping[str, Mapping[int, Mapping[str, float]]]  # run, seed, measure


def write_report(
    folder: Path, tables: Sequence[str], results: Results, settings: Mapping[str, object]
) -> Path:
    """Write ``miniature.md``, a plot of each table, and all results as ``miniature.csv``.

    Args:
        folder: Folder to write to.
        tables: Keys of ``TABLES``; rows without results are listed as "not run".
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
        lines += ['', f'## {table.title}', '', *_markdown(table, results), '']
        if table.note:
            lines += [table.note, '']
        lines += [f'![{table.title}](miniature_{name}.png)']
        _plot(table, results, folder / f'miniature_{name}.png')
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


def _claims(results: Results) -> list[str]:
    """Return the table of the claims for which both rows have been run."""
    compared = [(claim, compare(claim, results)) for claim in CLAIMS]
    rows = [
        f'| {claim.what} | {claim.source} | {d.mean:+.1f} [{d.low:+.1f}, {d.high:+.1f}] '
        f'| {d.num_seeds} | {d.verdict} |'
        for claim, d in compared
        if d is not None
    ]
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
        cells = [_cell(values[measure], row.paper.get(measure)) for measure in table.measures]
        counts = {len(measured) for measured in values.values() if measured} or {0}
        seeds = ' or '.join(str(count) for count in sorted(counts))
        lines.append(f'| {row.what} | {" | ".join(cells)} | {seeds} |')
    return lines


def _cell(measured: list[float], paper: float | None) -> str:
    ours = 'not run' if not measured else f'{mean(measured):.1f}'
    if len(measured) > 1:
        ours += f' ± {stdev(measured):.1f}'
    return ours if paper is None else f'{ours} ({paper:.1f})'


def _plot(table: Table, results: Results, path: Path) -> None:
    figure = Figure(figsize=(3.2 * len(table.measures) + 2.4, 0.42 * len(table.rows) + 1.2))
    panels = figure.subplots(1, len(table.measures), sharey=True, squeeze=False)[0]
    for panel, measure in zip(panels, table.measures, strict=True):
        for place, row in enumerate(table.rows):
            measured = row_values(results, row, measure)
            if measured:
                panel.barh(place, mean(measured), color='#8fb3d9', height=0.6)
                panel.plot(measured, [place] * len(measured), 'o', color='#1f4e79', ms=4)
            if measure in row.paper:
                panel.plot(row.paper[measure], place, 'D', mfc='none', color='#c0504d', ms=6)
        panel.set_yticks(range(len(table.rows)), [row.what for row in table.rows])
        panel.set_xlim(0, 100)
        panel.set_xlabel(f'{MEASURES[measure]}, %')
        panel.grid(axis='x', alpha=0.3)
    panels[0].invert_yaxis()
    figure.suptitle('bars: mean, dots: seeds, diamonds: the paper (Kinetics-400)', fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)

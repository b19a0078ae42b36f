"""The rows and columns of the miniature's tables, with the paper's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Columns; accuracies on the test videos
MEASURES = {
    'linear': 'linear',
    'knn_top1': '20-NN',
    'R@1': 'R@1',
    'transfer': 'linear, other classes',
    'labels_1pct': '1 % of the labels',
    'labels_10pct': '10 % of the labels',
    'labels_all': 'all labels',
    'top1': 'top-1',
}


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        what: Name of the row.
        run: A config of ``configs/miniature``, or 'random' for untrained weights.
        paper: The paper's number per measure, in percent.
    """

    what: str
    run: str
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper in miniature.

    Attributes:
        title: Title, with the number of the table in the paper.
        measures: Columns, keys of ``MEASURES``.
        rows: Rows.
        note: Differences from the paper.
    """

    title: str
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ''


FROZEN = ('linear', 'knn_top1', 'R@1')  # measures on frozen features
TRANSFER = 'transfer'  # linear, on videos with other paths and structures
TABLES = {
    'linear': Table(
        'Linear evaluation (Table 2)',
        FROZEN,
        (
            Row('random', 'random'),
            Row('SimCLR inflated', 'simclr_motion', {'linear': 46.8}),
            Row('CVRL', 'cvrl_motion', {'linear': 66.1}),
        ),
        'The accuracy of the same network trained with all labels is in the table of controls; '
        'in the paper it is 76.0.',
    ),
    'labels': Table(
        'Fine-tuning with few labels and with all (Table 3)',
        ('labels_1pct', 'labels_10pct', 'labels_all'),
        (
            Row('from scratch', 'random', {'labels_1pct': 3.2, 'labels_10pct': 39.6}),
            Row('SimCLR inflated', 'simclr_motion', {'labels_1pct': 11.8, 'labels_10pct': 46.1}),
            Row('CVRL', 'cvrl_motion', {'labels_1pct': 35.1, 'labels_10pct': 58.1}),
        ),
        'One, six and sixty labels per class. One per class is the least, and 1.7 % of all labels. '
        'The paper has no column of all labels: here they are fine-tuned for 10 epochs, and the '
        'supervised control is trained for 60.',
    ),
    'transfer': Table(
        'Linear evaluation on other classes (Table 4)',
        (TRANSFER,),
        (
            Row('random', 'random'),
            Row('SimCLR inflated', 'simclr_motion'),
            Row('CVRL', 'cvrl_motion'),
        ),
        'The networks of Table 2 on a second set, whose paths and structures do not occur in the '
        'first one. UCF-101 and HMDB-51 take its place in the paper.',
    ),
    'augmentation': Table(
        'Temporal and spatial augmentation (Table 9)',
        FROZEN,
        (
            Row('temporal', 'augment_temporal_only_motion', {'linear': 33.0}),
            Row('spatial', 'augment_spatial_only_motion', {'linear': 40.9}),
            Row('temporal, spatial', 'augment_inconsistent_motion', {'linear': 52.3}),
            Row('temporal, spatial, consistent', 'cvrl_motion', {'linear': 63.8}),
            Row('spatial, consistent', 'augment_spatial_consistent_motion'),
        ),
        'The last row is not in the paper.',
    ),
    'controls': Table(
        'Controls: supervised training with all labels',
        ('top1',),
        (
            Row('clips', 'supervised_motion', {'top1': 76.0}),
            Row('single frames', 'supervised_frame_motion'),
        ),
        'Chance is 6.25. The shape in a frame leaves two classes, between which its colours often '
        'decide: whoever knows both is right in 80 % of the scenes. Clips show the motion as well.',
    ),
    'interval': Table(
        'Density of the temporal interval (Figure 3)',
        FROZEN,
        (
            Row('(a) decreasing, linear', 'cvrl_motion', {'linear': 63.8}),
            Row('(b) decreasing, power 0.5', 'interval_decreasing_sqrt_motion', {'linear': 63.1}),
            Row('(c) decreasing, power 2', 'interval_decreasing_square_motion', {'linear': 62.9}),
            Row('(d) uniform', 'interval_uniform_motion', {'linear': 62.7}),
            Row('(e) increasing, linear', 'interval_increasing_linear_motion', {'linear': 62.4}),
            Row('(f) increasing, power 2', 'interval_increasing_square_motion', {'linear': 61.9}),
        ),
        'In 40 % of the videos 8 to 16 of the 40 frames, at the start or at the end, show a scene '
        'of any class.',
    ),
    'hidden_layers': Table(
        'Hidden layers of the projection (Table 6)',
        FROZEN,
        (
            Row('0', 'hidden_layers_0_motion', {'linear': 54.7}),
            Row('1', 'hidden_layers_1_motion', {'linear': 62.5}),
            Row('2', 'hidden_layers_2_motion', {'linear': 63.0}),
            Row('3', 'cvrl_motion', {'linear': 63.8}),
        ),
    ),
    'batch_size': Table(
        'Batch size (Table 7)',
        FROZEN,
        (
            Row('16 (paper: 256)', 'batch_16_motion', {'linear': 60.2}),
            Row('32 (paper: 512)', 'batch_32_motion', {'linear': 62.9}),
            Row('64 (paper: 1024)', 'cvrl_motion', {'linear': 63.8}),
            Row('128 (paper: 2048)', 'batch_128_motion', {'linear': 61.8}),
        ),
        'All rows see the same number of videos; the learning rate is scaled with the batch size.',
    ),
    'steps': Table(
        'Length of the pre-training (Table 8)',
        FROZEN,
        (
            Row('1/4 (paper: 100 epochs)', 'steps_quarter_motion', {'linear': 58.8}),
            Row('1/2 (paper: 200 epochs)', 'steps_half_motion', {'linear': 63.8}),
            Row('1 (paper: 500 epochs)', 'cvrl_motion', {'linear': 65.6}),
            Row('2 (paper: 800 epochs)', 'steps_twice_motion', {'linear': 66.1}),
        ),
    ),
    'data': Table(
        'Number of videos for pre-training, with the same number of steps (Figure 4)',
        FROZEN,
        (
            Row('25 %', 'data_25pct_motion'),
            Row('50 %', 'data_50pct_motion'),
            Row('100 %', 'cvrl_motion'),
        ),
        'The linear classifiers see the labels of all videos. The paper compares K400 with K600.',
    ),
}


def measures_by_run(tables: list[str]) -> dict[str, set[str]]:
    """Collect the measures that some tables need from each run.

    Args:
        tables: Keys of ``TABLES``.

    Returns:
        Measures by run, in the order of the tables.
    """
    runs: dict[str, set[str]] = {}
    for name in tables:
        for row in TABLES[name].rows:
            runs.setdefault(row.run, set()).update(TABLES[name].measures)
    return runs

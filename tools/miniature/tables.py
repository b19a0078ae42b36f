"""The rows and columns of the miniature's tables, with the paper's numbers, and its claims."""

from dataclasses import dataclass

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
FROZEN = ('linear', 'knn_top1', 'R@1')  # measures on frozen features


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        what: Name of the row.
        run: A config of ``configs/miniature`` without "_motion", or 'random' for untrained weights.
        paper: The paper's numbers in percent, of the first columns.
    """

    what: str
    run: str
    paper: tuple[float, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper in miniature.

    Attributes:
        source: Its number in the paper.
        title: What it compares.
        measures: Columns, keys of ``MEASURES``.
        rows: Rows.
        note: Differences from the paper.
    """

    source: str
    title: str
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ''


TABLES = {
    'linear': Table(
        'Table 2',
        'linear evaluation',
        FROZEN,
        (
            Row('random', 'random'),
            Row('SimCLR inflated', 'simclr', (46.8,)),
            Row('CVRL', 'cvrl', (66.1,)),
        ),
        'The same network trained with all labels is among the controls; in the paper it has 76.0.',
    ),
    'labels': Table(
        'Table 3',
        'fine-tuning with few labels and with all',
        ('labels_1pct', 'labels_10pct', 'labels_all'),
        (
            Row('from scratch', 'random', (3.2, 39.6)),
            Row('SimCLR inflated', 'simclr', (11.8, 46.1)),
            Row('CVRL', 'cvrl', (35.1, 58.1)),
        ),
        'One, six and sixty labels per class. One per class is the least, and 1.7 % of all labels. '
        'The paper has no column of all labels: here they are fine-tuned for 10 epochs, and the '
        'supervised control is trained for 60.',
    ),
    'transfer': Table(
        'Table 4',
        'linear evaluation on other classes',
        ('transfer',),
        (Row('random', 'random'), Row('SimCLR inflated', 'simclr'), Row('CVRL', 'cvrl')),
        'The networks of Table 2 on a second set, whose paths and structures do not occur in the '
        'first one. UCF-101 and HMDB-51 take its place in the paper.',
    ),
    'augmentation': Table(
        'Table 9',
        'temporal and spatial augmentation',
        FROZEN,
        (
            Row('temporal', 'augment_temporal_only', (33.0,)),
            Row('spatial', 'augment_spatial_only', (40.9,)),
            Row('temporal, spatial', 'augment_inconsistent', (52.3,)),
            Row('temporal, spatial, consistent', 'cvrl', (63.8,)),
            Row('spatial, consistent', 'augment_spatial_consistent'),
        ),
        'The last row is not in the paper.',
    ),
    'controls': Table(
        'Control',
        'supervised training with all labels',
        ('top1',),
        (Row('clips', 'supervised', (76.0,)), Row('single frames', 'supervised_frame')),
        'Chance is 6.25. The shape in a frame leaves two classes, between which its colours often '
        'decide: whoever knows both is right in 80 % of the scenes. Clips show the motion as well.',
    ),
    'interval': Table(
        'Figure 3',
        'density of the temporal interval',
        FROZEN,
        (
            Row('(a) decreasing, linear', 'cvrl', (63.8,)),
            Row('(b) decreasing, power 0.5', 'interval_decreasing_sqrt', (63.1,)),
            Row('(c) decreasing, power 2', 'interval_decreasing_square', (62.9,)),
            Row('(d) uniform', 'interval_uniform', (62.7,)),
            Row('(e) increasing, linear', 'interval_increasing_linear', (62.4,)),
            Row('(f) increasing, power 2', 'interval_increasing_square', (61.9,)),
        ),
        'In 40 % of the videos 8 to 16 of the 40 frames, at the start or at the end, show a scene '
        'of any class.',
    ),
    'hidden_layers': Table(
        'Table 6',
        'hidden layers of the projection',
        FROZEN,
        (
            Row('0', 'hidden_layers_0', (54.7,)),
            Row('1', 'hidden_layers_1', (62.5,)),
            Row('2', 'hidden_layers_2', (63.0,)),
            Row('3', 'cvrl', (63.8,)),
        ),
    ),
    'batch_size': Table(
        'Table 7',
        'batch size',
        FROZEN,
        (
            Row('16 (paper: 256)', 'batch_16', (60.2,)),
            Row('32 (paper: 512)', 'batch_32', (62.9,)),
            Row('64 (paper: 1024)', 'cvrl', (63.8,)),
            Row('128 (paper: 2048)', 'batch_128', (61.8,)),
        ),
        'All rows see the same number of videos; the learning rate is scaled with the batch size.',
    ),
    'steps': Table(
        'Table 8',
        'length of the pre-training',
        FROZEN,
        (
            Row('1/4 (paper: 100 epochs)', 'steps_quarter', (58.8,)),
            Row('1/2 (paper: 200 epochs)', 'steps_half', (63.8,)),
            Row('1 (paper: 500 epochs)', 'cvrl', (65.6,)),
            Row('2 (paper: 800 epochs)', 'steps_twice', (66.1,)),
        ),
    ),
    'data': Table(
        'Figure 4',
        'number of videos for pre-training, with the same number of steps',
        FROZEN,
        (Row('25 %', 'data_25pct'), Row('50 %', 'data_50pct'), Row('100 %', 'cvrl')),
        'The linear classifiers see the labels of all videos. The paper compares K400 with K600.',
    ),
}


@dataclass(frozen=True)
class Claim:
    """The claim that one row has a higher accuracy than another.

    Attributes:
        what: Text of the claim.
        source: Table or figure of the paper, or 'control' for a comparison that is not in it.
        higher: Run with the higher accuracy.
        lower: Run with the lower accuracy.
        measure: The accuracy.
    """

    what: str
    source: str
    higher: str
    lower: str
    measure: str = 'linear'


SPATIAL, TEMPORAL, BOTH = (
    f'augment_{x}' for x in ('spatial_only', 'temporal_only', 'inconsistent')
)
UNIFORM, INCREASING = 'interval_uniform', 'interval_increasing_linear'
# The directions come from the paper. The list was made before the first table of the present
# videos; four of the comparisons were named controls after it.
CLAIMS = (
    # The positive pair shares its motion, which is the class
    Claim('CVRL above random weights', 'control', 'cvrl', 'random'),
    # A single frame shows the structure, which leaves two of the classes, and not the motion
    Claim('CVRL above inflated SimCLR', 'Table 2', 'cvrl', 'simclr'),
    Claim('inflated SimCLR above random weights', 'control', 'simclr', 'random'),
    Claim('supervised training above CVRL', 'Table 2', 'supervised', 'cvrl'),
    # Features learned without labels need fewer labels for the classes
    *(
        Claim(f'CVRL above {name}, {n} % of the labels', 'Table 3', 'cvrl', run, f'labels_{n}pct')
        for name, run in (('training from scratch', 'random'), ('inflated SimCLR', 'simclr'))
        for n in (1, 10)
    ),
    # Positions over time serve other motions as well
    *(
        Claim(f'CVRL above {name}, other classes', 'control', 'cvrl', run, 'transfer')
        for name, run in (('random weights', 'random'), ('inflated SimCLR', 'simclr'))
    ),
    # Without spatial augmentation the colours and the noise of a video identify it
    Claim('spatial above temporal augmentation', 'Table 9', SPATIAL, TEMPORAL),
    Claim('both augmentations above temporal alone', 'Table 9', BOTH, TEMPORAL),
    Claim('both augmentations above spatial alone', 'Table 9', BOTH, SPATIAL),
    # One draw per frame hides the motion, and its mean over the frames shows the camera
    Claim('consistent augmentation above one draw per frame', 'Table 9', 'cvrl', BOTH),
    # In four of ten videos clips far apart may show scenes of two classes
    Claim('decreasing above uniform density', 'Figure 3', 'cvrl', UNIFORM),
    Claim('decreasing above increasing density', 'Figure 3', 'cvrl', INCREASING),
    Claim('uniform above increasing density', 'Figure 3', UNIFORM, INCREASING),
    # Hidden layers keep what the loss discards out of the features
    Claim('1 hidden layer above 0', 'Table 6', 'hidden_layers_1', 'hidden_layers_0'),
    Claim('2 hidden layers above 1', 'Table 6', 'hidden_layers_2', 'hidden_layers_1'),
    Claim('3 hidden layers above 2', 'Table 6', 'cvrl', 'hidden_layers_2'),
    Claim('3 hidden layers above 0', 'Table 6', 'cvrl', 'hidden_layers_0'),
    # A larger batch has more negatives, and the same number of videos gives fewer steps
    Claim('batch 32 above 16', 'Table 7', 'batch_32', 'batch_16'),
    Claim('batch 64 above 32', 'Table 7', 'cvrl', 'batch_32'),
    Claim('batch 64 above 128', 'Table 7', 'cvrl', 'batch_128'),
    # The loss still falls at the end of the shorter training
    Claim('1/2 above 1/4 of the steps', 'Table 8', 'steps_half', 'steps_quarter'),
    Claim('all above 1/2 of the steps', 'Table 8', 'cvrl', 'steps_half'),
    Claim('twice above all of the steps', 'Table 8', 'steps_twice', 'cvrl'),
    # Fewer videos are seen more often, and can be told apart by details of single videos
    Claim('50 % above 25 % of the videos', 'Figure 4', 'data_50pct', 'data_25pct'),
    Claim('all above 50 % of the videos', 'Figure 4', 'cvrl', 'data_50pct'),
)


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

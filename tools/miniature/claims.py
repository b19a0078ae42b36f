"""The paper's claims as comparisons of two rows, with a reason for each prediction.

The directions are those of the paper. The list was made before the first table of the present
videos, for which the reasons were reworded; four of the comparisons were named controls after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from paired_difference import PairedDifference, paired_difference


@dataclass(frozen=True)
class Claim:
    """The claim that one row has a higher accuracy than another.

    Attributes:
        what: Text of the claim.
        source: Table or figure of the paper, or 'control' for a comparison that is not in it.
        higher: Run and measure with the higher accuracy.
        lower: Run and measure with the lower accuracy.
        why: Why the claim should hold on the generated videos, or why it may not.
    """

    what: str
    source: str
    higher: tuple[str, str]
    lower: tuple[str, str]
    why: str


def linear(what: str, source: str, higher: str, lower: str, why: str) -> Claim:
    """Make a claim about linear evaluation of two runs; ``_motion`` is added to their names."""
    return Claim(what, source, (f'{higher}_motion', 'linear'), (f'{lower}_motion', 'linear'), why)


def fine_tuned(what: str, higher: str, lower: str, percent: int) -> Claim:
    """Make a claim about fine-tuning on a part of the labels (Table 3)."""
    return Claim(
        f'{what}, {percent} % of the labels',
        'Table 3',
        (higher, f'labels_{percent}pct'),
        (lower, f'labels_{percent}pct'),
        'Features learned without labels need fewer labels for the classes.',
    )


INTERVAL = 'In four of ten videos clips far apart may show scenes of two classes.'
LONGER = 'The loss still falls at the end of the shorter training.'
DATA = 'Fewer videos are seen more often, and can be told apart by details of single videos.'
NEGATIVES = 'A larger batch has more negatives.'
LAYERS = 'Hidden layers keep what the loss discards out of the features.'
CLAIMS = (
    Claim(
        'CVRL above random weights',
        'control',
        ('cvrl_motion', 'linear'),
        ('random', 'linear'),
        'The positive pair shares its motion, which is the class.',
    ),
    linear(
        'CVRL above inflated SimCLR',
        'Table 2',
        'cvrl',
        'simclr',
        'A single frame shows the structure and the colours, not the motion.',
    ),
    Claim(
        'inflated SimCLR above random weights',
        'control',
        ('simclr_motion', 'linear'),
        ('random', 'linear'),
        'A single frame shows the structure, which leaves two of the classes.',
    ),
    Claim(
        'supervised training above CVRL',
        'Table 2',
        ('supervised_motion', 'top1'),
        ('cvrl_motion', 'linear'),
        'Labels name the class directly.',
    ),
    *(fine_tuned('CVRL above training from scratch', 'cvrl_motion', 'random', p) for p in (1, 10)),
    *(fine_tuned('CVRL above inflated SimCLR', 'cvrl_motion', 'simclr_motion', p) for p in (1, 10)),
    Claim(
        'CVRL above random weights, other classes',
        'control',
        ('cvrl_motion', 'transfer'),
        ('random', 'transfer'),
        'Positions over time serve other motions as well.',
    ),
    Claim(
        'CVRL above inflated SimCLR, other classes',
        'control',
        ('cvrl_motion', 'transfer'),
        ('simclr_motion', 'transfer'),
        'A single frame shows the structure and the colours, not the motion.',
    ),
    linear(
        'spatial above temporal augmentation',
        'Table 9',
        'augment_spatial_only',
        'augment_temporal_only',
        'Without spatial augmentation the colours and the noise of a video identify it.',
    ),
    linear(
        'both augmentations above temporal alone',
        'Table 9',
        'augment_inconsistent',
        'augment_temporal_only',
        'Spatial augmentation removes the colours as a shortcut.',
    ),
    linear(
        'both augmentations above spatial alone',
        'Table 9',
        'augment_inconsistent',
        'augment_spatial_only',
        'Two different clips ask for more than two views of one clip.',
    ),
    linear(
        'consistent augmentation above one draw per frame',
        'Table 9',
        'cvrl',
        'augment_inconsistent',
        'One draw per frame hides the motion, and its mean over the frames shows the camera.',
    ),
    linear('decreasing above uniform density', 'Figure 3', 'cvrl', 'interval_uniform', INTERVAL),
    linear(
        'decreasing above increasing density',
        'Figure 3',
        'cvrl',
        'interval_increasing_linear',
        INTERVAL,
    ),
    linear(
        'uniform above increasing density',
        'Figure 3',
        'interval_uniform',
        'interval_increasing_linear',
        INTERVAL,
    ),
    linear('1 hidden layer above 0', 'Table 6', 'hidden_layers_1', 'hidden_layers_0', LAYERS),
    linear('2 hidden layers above 1', 'Table 6', 'hidden_layers_2', 'hidden_layers_1', LAYERS),
    linear('3 hidden layers above 2', 'Table 6', 'cvrl', 'hidden_layers_2', LAYERS),
    linear('3 hidden layers above 0', 'Table 6', 'cvrl', 'hidden_layers_0', LAYERS),
    linear('batch 32 above 16', 'Table 7', 'batch_32', 'batch_16', NEGATIVES),
    linear('batch 64 above 32', 'Table 7', 'cvrl', 'batch_32', NEGATIVES),
    linear(
        'batch 64 above 128',
        'Table 7',
        'cvrl',
        'batch_128',
        'The same number of videos gives half of the steps.',
    ),
    *(
        linear(f'{longer} above {shorter} of the steps', 'Table 8', high, low, LONGER)
        for shorter, low, longer, high in (
            ('1/4', 'steps_quarter', '1/2', 'steps_half'),
            ('1/2', 'steps_half', 'all', 'cvrl'),
            ('all', 'cvrl', 'twice', 'steps_twice'),
        )
    ),
    *(
        linear(f'{more} above {less} of the videos', 'Figure 4', high, low, DATA)
        for less, low, more, high in (
            ('25 %', 'data_25pct', '50 %', 'data_50pct'),
            ('50 %', 'data_50pct', 'all', 'cvrl'),
        )
    ),
)


def compare(
    claim: Claim, results: Mapping[str, Mapping[int, Mapping[str, float]]]
) -> PairedDifference | None:
    """Compare the two rows of a claim over the seeds that both have.

    Args:
        claim: One of ``CLAIMS``.
        results: Accuracies, 0 to 1, by run, seed and measure.

    Returns:
        The difference in percentage points, or None if fewer than two seeds have both.
    """

    def percent(run: str, measure: str) -> dict[int, float]:
        seeds = results.get(run, {}).items()
        return {seed: 100 * result[measure] for seed, result in seeds if measure in result}

    return paired_difference(percent(*claim.higher), percent(*claim.lower))

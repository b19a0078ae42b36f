"""Metrics of retrieving the second clip of a video by its first."""

from torch import Tensor


def retrieval_metrics(sim: Tensor, video: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum the metrics of a contrastive batch over its rows.

    A tie is no hit, so that collapsed embeddings do not score as correct; neither is NaN.

    Args:
        sim: Similarities of first clips and second clips, (m, N), divided by the temperature.
        video: The column of each row's positive, (m,).

    Returns:
        Number of rows whose positive is the most similar, number of rows whose positive is among
        the five most similar, and sum of the entropies of the rows' softmax, in nats.
    """
    positive = sim.gather(1, video[:, None])
    not_below = sim.shape[1] - 1 - (sim < positive).sum(1)  # without the positive itself
    log_p = sim.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum()
    return (not_below < 1).sum().to(entropy), (not_below < 5).sum().to(entropy), entropy

"""Metrics for retrieving the second clip of a video by its first clip."""

from torch import Tensor


def retrieval_metrics(sim: Tensor, video: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the metrics of a contrastive batch, summed over its rows.

    Ties and NaN do not count as hits, so that collapsed embeddings do not score as correct.

    Args:
        sim: Similarities between first and second clips, (m, N), divided by the temperature.
        video: Column of each row's positive, (m,).

    Returns:
        The number of rows whose positive is the most similar clip, the number of rows whose
        positive is among the five most similar clips, and the sum of the entropies of the rows'
        softmax, in nats.
    """
    positive = sim.gather(1, video[:, None])
    not_below = sim.shape[1] - 1 - (sim < positive).sum(1)  # without the positive itself
    log_p = sim.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum()
    return (not_below < 1).sum().to(entropy), (not_below < 5).sum().to(entropy), entropy

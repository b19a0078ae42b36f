"""The projection and the contrastive loss of CVRL."""

import torch
import torch.nn.functional as F
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmcv.cnn import build_norm_layer
from mmengine.dist import all_reduce, get_world_size
from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .gather import gather_rows
from .pooling import global_average_pool

MAX_SIMILARITIES = 2**26  # that are held at a time: 256 MiB of float32


@MODELS.register_module()
class InfoNCEHead(BaseModule):
    """Project clips and contrast the two of a video with all others (CVRL, Sec. 3.1, Eq. 1).

    Pooled features pass through ``num_hidden_layers`` times [linear, batch norm, ReLU] and a
    last linear layer (Table 6 varies their number). The batch-norm momentum, the Glorot
    initialisation and the sum of the loss over both directions are the released code's.

    Args:
        in_channels: Channels of the backbone's features, 2048 for R3D-50.
        hidden_channels: Width of the hidden layers.
        num_hidden_layers: Hidden layers; none makes the projection linear.
        out_channels: Dimension of the embedding z.
        temperature: Divides the cosine similarities.
        norm_cfg: Batch norm of the hidden layers.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 2048,
        num_hidden_layers: int = 3,
        out_channels: int = 128,
        temperature: float = 0.1,
        norm_cfg: dict | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        if min(in_channels, hidden_channels, out_channels) < 1 or num_hidden_layers < 0:
            raise ValueError(
                'InfoNCEHead needs positive channels and num_hidden_layers >= 0, got '
                f'in_channels={in_channels}, hidden_channels={hidden_channels}, '
                f'out_channels={out_channels}, num_hidden_layers={num_hidden_layers}.'
            )
        if not 0 < temperature < float('inf'):  # NaN, too
            raise ValueError(
                f'temperature must be positive and finite (the paper: 0.1), got {temperature}.'
            )
        self.temperature = temperature
        self.equal_batches = False  # over all ranks; NegativesCheckHook knows the loader
        norm_cfg = norm_cfg or dict(type='BN1d', momentum=0.003)
        layers, width = [], in_channels
        for _ in range(num_hidden_layers):
            norm = build_norm_layer(norm_cfg, hidden_channels)[1]
            layers += [nn.Linear(width, hidden_channels), norm, nn.ReLU(inplace=True)]
            width = hidden_channels
        self.projection = nn.Sequential(*layers, nn.Linear(width, out_channels))

    def init_weights(self) -> None:
        """Draw Glorot-uniform weights and set the biases to zero."""
        for layer in self.projection:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        super().init_weights()

    def forward(self, feats: Tensor | tuple[Tensor, ...], **kwargs: object) -> Tensor:
        """Project features to embeddings.

        Args:
            feats: Backbone features, (M, C, T, H, W) or pooled, (M, C).
            kwargs: What a neck leaves for heads; unused.

        Returns:
            z: Embeddings before normalisation, (M, D).
        """
        return self.projection(global_average_pool(feats))

    def loss(
        self,
        feats: Tensor | tuple[Tensor, ...],
        data_samples: list[ActionDataSample],
        **kwargs: object,
    ) -> dict[str, Tensor]:
        """Contrast a batch; its labels, if any, are not looked at.

        Args:
            feats: Features of 2n clips, the two of a video next to each other.
            data_samples: n samples.
            kwargs: Passed to :meth:`forward`.

        Returns:
            As :meth:`contrast`.
        """
        z = self(feats, **kwargs)
        return self.contrast(z.unflatten(0, (-1, 2)))

    def contrast(self, z: Tensor) -> dict[str, Tensor]:
        """Contrast every clip with its twin (CVRL, Eq. 1) among the clips of all ranks.

        Each rank scores its own rows against all 2N clips. Similarities and loss are float32
        under mixed precision. ``accuracy``, ``accuracy_top5`` and ``entropy`` look, as in the
        released code, at the first clips against the second clips alone.

        Args:
            z: Embeddings, (n, 2, D); z[:, 0] and z[:, 1] come from one video.

        Returns:
            ``loss``: scalar. Its value is the mean over the N videos of all ranks, both
            directions summed; its gradient is this rank's part, which data-parallel
            averaging joins to the exact gradient of that value.
            ``accuracy``, ``accuracy_top5``: share of videos whose twin scores highest, or
            among the five highest. ``entropy``: of the softmax over second clips, in nats.

        Raises:
            ValueError: the batch has fewer than two videos, over all ranks.
        """
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(torch.promote_types(z.dtype, torch.float32)).flatten(0, 1)
            q = normalize(z)  # (2n, D)
            k, first = gather_rows(q, self.equal_batches)  # (2N, D)
            num_videos = len(k) // 2
            if num_videos < 2:
                raise ValueError(
                    f'The contrastive loss got a batch of {num_videos} videos and has no '
                    'negatives; give it at least two, over all ranks, and set '
                    'train_dataloader.drop_last=True if the last batch is smaller.'
                )
            means = self._score_all(q, k, first) / num_videos
            loss, means = means[0], means.detach().clone()
            all_reduce(means, 'sum')
            loss = loss * get_world_size()  # data-parallel training averages over ranks
            loss = loss + (means[0] - loss).detach()
        names = ('accuracy', 'accuracy_top5', 'entropy')
        return dict(loss=loss, **dict(zip(names, means[1:], strict=True)))

    def _score_all(self, q: Tensor, k: Tensor, first: int) -> Tensor:
        """Sum what :meth:`_score` gives over this rank's clips, in blocks if they are many."""
        own = first + torch.arange(len(q), device=q.device)
        rows = max(MAX_SIMILARITIES // len(k) // 2 * 2, 2)
        if rows >= len(q):
            return self._score(q, k, own)
        blocks = zip(q.split(rows), own.split(rows), strict=True)
        # a row's softmax needs that row alone; its block is computed again going backwards
        return sum(checkpoint(self._score, b, k, o, use_reentrant=False) for b, o in blocks)

    def _score(self, q: Tensor, k: Tensor, own: Tensor) -> Tensor:
        """Sum loss, top-1 hits, top-5 hits and entropy over some videos' clips.

        Args:
            q: Their clips, (2m, D), l2-normalised.
            k: The clips of all ranks, (2N, D), l2-normalised.
            own: Places of q's rows among k's, (2m,).

        Returns:
            The four sums, (4,); the first one has a gradient.
        """
        sim = q @ k.T / self.temperature  # (2m, 2N)
        twin = own ^ 1  # a video's two clips stand next to each other
        across = sim.detach()[::2, 1::2]  # (m, N): first clips against second clips
        statistics = self._statistics(across, own[::2] // 2)
        sim[torch.arange(len(q), device=q.device), own] = float('-inf')
        loss = F.cross_entropy(sim, twin, reduction='sum')
        return torch.stack([loss, *statistics])

    @staticmethod
    def _statistics(across: Tensor, video: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sum top-1 hits, top-5 hits and entropy over (m, N) logits; twins at ``video``."""
        twin = across.gather(1, video[:, None])
        # neither a tie nor a NaN is a hit: collapse must not look right
        ahead = across.shape[1] - 1 - (across < twin).sum(1)
        log_p = across.log_softmax(1)
        entropy = -(log_p.exp() * log_p).sum()
        return (ahead < 1).sum().to(entropy), (ahead < 5).sum().to(entropy), entropy

    def predict(
        self,
        feats: Tensor | tuple[Tensor, ...],
        data_samples: list[ActionDataSample],
        **kwargs: object,
    ) -> list[ActionDataSample]:
        """Embed videos.

        Args:
            feats: Features of all views of the N samples' videos, a video's views adjacent.
            data_samples: N samples.
            kwargs: Passed to :meth:`forward`.

        Returns:
            The samples with ``embedding``, (D,): the mean over the video's views of their
            l2-normalised embeddings, normalised again.
        """
        z = F.normalize(self(feats, **kwargs), dim=1).unflatten(0, (len(data_samples), -1))
        for sample, embedding in zip(data_samples, F.normalize(z.mean(1), dim=1), strict=True):
            sample.embedding = embedding
        return data_samples


def normalize(z: Tensor) -> Tensor:
    """Scale rows to unit length.

    A row shorter than 1e-6 (the square root of the released code's epsilon) has no direction to
    train and gets no gradient, which would be of the order of its inverse length.

    Args:
        z: (M, D).

    Returns:
        (M, D); rows of zeros stay zero.
    """
    too_short = z.detach().norm(dim=1, keepdim=True) < 1e-6
    return F.normalize(torch.where(too_short, z.detach(), z), dim=1)

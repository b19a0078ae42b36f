"""The projection and contrastive loss of CVRL, and the linear classifier.

To read Eq. 1, start with :meth:`InfoNCEHead.contrast` and :meth:`InfoNCEHead.score`.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from mmaction.models import BaseHead
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmcv.cnn import build_norm_layer
from mmengine.dist import all_reduce, get_rank, get_world_size
from mmengine.model import BaseModule
from torch import Tensor, nn

from .backbone import global_average_pool


@MODELS.register_module()
class InfoNCEHead(BaseModule):
    """Projection and contrastive loss of CVRL (Sec. 3.1, Eq. 1).

    The projection is an MLP on the pooled features: ``num_hidden_layers`` blocks of linear
    layer, batch norm and ReLU, and a final linear layer (Table 6 compares their number). The
    batch norm momentum, the Glorot initialisation and the sum of the loss over both directions
    follow the released code.

    Args:
        in_channels: Channels of the backbone's features, 2048 for R3D-50.
        hidden_channels: Channels of the hidden layers.
        num_hidden_layers: Number of hidden layers; with 0 the projection is linear.
        out_channels: Dimension of the embedding z.
        temperature: Divisor of the cosine similarities.
        norm_cfg: Config of the batch norm in the hidden layers.
        init_cfg: Initialisation config of mmengine.

    Attributes:
        equal_batches: Whether all ranks have batches of one size. They exchange their sizes in
            each step unless ``ChecksHook``, which knows the loader, sets this to True.

    Raises:
        ValueError: An argument is out of range.
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
        if not 0 < temperature < float('inf'):  # also rejects NaN
            raise ValueError(
                f'temperature must be positive and finite (the paper: 0.1), got {temperature}.'
            )
        self.temperature = temperature
        self.equal_batches = False
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
            kwargs: Outputs of a neck for heads; unused.

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
        """Compute the contrastive loss of a batch; labels are not used.

        Args:
            feats: Features of 2n clips; the two clips of a video are adjacent.
            data_samples: n samples.
            kwargs: Passed to :meth:`forward`.

        Returns:
            See :meth:`contrast`.
        """
        z = self(feats, **kwargs)
        return self.contrast(z.unflatten(0, (-1, 2)))

    def contrast(self, z: Tensor) -> dict[str, Tensor]:
        """Compute the contrastive loss among the clips of all ranks (CVRL, Eq. 1).

        Each rank scores its own clips against all 2N clips. Similarities and loss are float32
        under mixed precision. As in the released code, ``accuracy``, ``accuracy_top5`` and
        ``entropy`` compare the first clips with the second clips only.

        Args:
            z: Embeddings, (n, 2, D); z[:, 0] and z[:, 1] come from one video.

        Returns:
            ``loss``: Scalar, the mean over the N videos of all ranks, both directions summed.
            Its gradient is partial on each rank; DDP's average over ranks is the exact gradient.
            ``accuracy``, ``accuracy_top5``: Share of the videos whose second clip is the nearest
            to the first, or among the five nearest. Ties do not count as hits. ``entropy``: Mean
            entropy of the softmax over second clips, in nats.

        Raises:
            ValueError: The batch of all ranks has fewer than two videos.
        """
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(torch.promote_types(z.dtype, torch.float32)).flatten(0, 1)
            q = normalize(z)  # (2n, D): the clips of this rank
            k, first = gather_rows(q, self.equal_batches)  # (2N, D): the clips of all ranks
            own = first + torch.arange(len(q), device=q.device)  # q = k[own]
            num_videos = len(k) // 2
            if num_videos < 2:
                raise ValueError(
                    'The contrastive loss needs at least two videos over all ranks, but got '
                    f'{num_videos}. If the last batch is smaller, set '
                    'train_dataloader.drop_last=True.'
                )
            sim = q @ k.T / self.temperature  # (2n, 2N)
            metrics = retrieval_metrics(sim.detach()[::2, 1::2], own[::2] // 2)
            sums = torch.stack([self.score(sim, own), *metrics])
            means = mean_over_ranks(sums, num_videos)
        names = ('accuracy', 'accuracy_top5', 'entropy')
        return dict(loss=means[0], **dict(zip(names, means[1:].detach(), strict=True)))

    def score(self, sim: Tensor, own: Tensor) -> Tensor:
        """Compute the loss of Eq. 1. Override it for another contrastive loss.

        Args:
            sim: Similarities between the clips of this rank and of all ranks, divided by the
                temperature, (2n, 2N); the two clips of a video are adjacent. May be overwritten.
            own: Column of each row's clip itself, (2n,); the video's other clip is in column
                ``own ^ 1``.

        Returns:
            The sum over the rows, a scalar.
        """
        sim.scatter_(1, own[:, None], float('-inf'))  # a clip and itself
        return F.cross_entropy(sim, own ^ 1, reduction='sum')

    def predict(
        self,
        feats: Tensor | tuple[Tensor, ...],
        data_samples: list[ActionDataSample],
        **kwargs: object,
    ) -> list[ActionDataSample]:
        """Compute the embeddings of videos.

        Args:
            feats: Features of all views of N videos; the views of a video are adjacent.
            data_samples: N samples.
            kwargs: Passed to :meth:`forward`.

        Returns:
            The samples with ``embedding``, (D,): the l2-normalised embeddings of the views,
            averaged and normalised again.
        """
        z = F.normalize(self(feats, **kwargs), dim=1).unflatten(0, (len(data_samples), -1))
        for sample, embedding in zip(data_samples, F.normalize(z.mean(1), dim=1), strict=True):
            sample.embedding = embedding
        return data_samples


def normalize(z: Tensor) -> Tensor:
    """Scale rows to unit length.

    A row shorter than 1e-6 (the square root of the released code's epsilon) receives no gradient,
    because the gradient is of the order of the inverse length.

    Args:
        z: (M, D).

    Returns:
        (M, D); rows of zeros stay zero.
    """
    too_short = z.detach().norm(dim=1, keepdim=True) < 1e-6
    return F.normalize(torch.where(too_short, z.detach(), z), dim=1)


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


# -- communication between ranks, with exact gradients --------------------------------------------


def gather_rows(x: Tensor, equal: bool = False) -> tuple[Tensor, int]:
    """Concatenate the rows of all ranks, in the order of the ranks, with gradients.

    Args:
        x: The rows of this rank, (n, D). n may differ between ranks; D must not.
        equal: Whether n is known to be equal on all ranks. Otherwise, the ranks exchange n, and
            the host waits for the device.

    Returns:
        The rows of all ranks, (N, D), and the index of this rank's first row among them. In the
        backward pass, the gradient of a row is the sum of its gradients on all ranks.
    """
    if get_world_size() == 1:
        return x, 0
    sizes = [len(x)] * get_world_size()
    if not equal:
        counts = [x.new_empty(1, dtype=torch.long) for _ in sizes]
        dist.all_gather(counts, x.new_tensor([len(x)], dtype=torch.long))
        sizes = torch.cat(counts).tolist()
    return _Gather.apply(x, sizes), sum(sizes[: get_rank()])


def mean_over_ranks(sums: Tensor, count: int) -> Tensor:
    """Average sums of all ranks so that DDP yields the exact gradient.

    Args:
        sums: Sums over this rank's share of the batch.
        count: Size of the batch over all ranks.

    Returns:
        The sums over all ranks divided by ``count``. It has the gradient of this rank's sums
        alone, multiplied by the number of ranks, because DDP divides gradients by that number.
    """
    total = sums.detach().clone()
    all_reduce(total, 'sum')
    own = sums * get_world_size() / count
    return own + (total / count - own).detach()


class _Gather(torch.autograd.Function):
    """All-gather forward, all-reduce backward.

    The sum over ranks gives each embedding the gradient that it receives as a negative of the
    videos of other ranks. ``torch.distributed.nn.functional.all_gather`` computes the same, but
    needs equal sizes and is deprecated since torch 2.15.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = x.new_zeros(max(sizes), *x.shape[1:])
        padded[: len(x)] = x
        rows = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(rows, padded)
        return torch.cat([r[:size] for r, size in zip(rows, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.clone(memory_format=torch.contiguous_format)  # autograd may still need it
        dist.all_reduce(grad)
        return grad.split(ctx.sizes)[get_rank()], None


# -- the linear classifier ---------------------------------------------------------------------


@MODELS.register_module()
class LinearProbeHead(BaseHead):
    """Linear classifier on l2-normalised pooled features (CVRL, Sec. 4.1).

    The initialisation follows the released code: Glorot-uniform weights and zero biases. The
    loss, the accuracy and the average over test views are as in MMAction2's heads. Supervised
    training and fine-tuning use this head without normalisation and with dropout, because
    MMAction2's ``I3DHead`` computes its accuracy with numpy and fails under bfloat16.

    Args:
        num_classes: Number of classes.
        in_channels: Channels of the backbone's features, 2048 for R3D-50.
        l2_normalize: Scale the features to unit length. The paper's learning rate of 32 assumes
            this.
        dropout_ratio: Probability with which dropout zeroes an element of the features.
        kwargs: Further arguments of ``BaseHead``, such as ``average_clips``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        l2_normalize: bool = True,
        dropout_ratio: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.l2_normalize = l2_normalize
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def init_weights(self) -> None:
        """Draw Glorot-uniform weights and set the bias to zero."""
        nn.init.xavier_uniform_(self.fc_cls.weight)
        nn.init.zeros_(self.fc_cls.bias)
        super().init_weights()

    def forward(self, feats: Tensor | tuple[Tensor, ...], **kwargs: object) -> Tensor:
        """Compute class scores, in float32 also under mixed precision.

        Args:
            feats: Backbone features, (M, C, T, H, W) or pooled, (M, C).
            kwargs: Outputs of a neck for heads; unused.

        Returns:
            Class scores before the softmax, (M, num_classes).
        """
        x = global_average_pool(feats)
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            if self.l2_normalize:
                x = F.normalize(x, dim=1)
            return self.fc_cls(self.dropout(x))


def check_head_channels(backbone: nn.Module, in_channels: int) -> None:
    """Compare the input channels of a head with the channels of the features.

    Args:
        backbone: A backbone with ``out_channels``; others are not checked.
        in_channels: Input channels of the head.

    Raises:
        ValueError: The two differ.
    """
    channels = getattr(backbone, 'out_channels', in_channels)
    if in_channels != channels:
        raise ValueError(
            f'model.cls_head.in_channels={in_channels}, but the features of this '
            f'{type(backbone).__name__} have {channels} channels. Set '
            f'model.cls_head.in_channels={channels}.'
        )

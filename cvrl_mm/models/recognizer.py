"""The CVRL recognizer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from mmaction.models.recognizers import Recognizer3D
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .backbone import global_average_pool
from .heads import check_head_channels
from .norm import part_of_update, trace_sync_norms
from .preprocessor import ClipDataPreprocessor

STOCK_PREPROCESSORS = ('ActionDataPreprocessor', 'mmaction.ActionDataPreprocessor')


@MODELS.register_module()
class CVRL(Recognizer3D):
    """Learn video features from pairs of clips without labels (CVRL, Sec. 3.1, Figure 2).

    The backbone, neck, head and data preprocessor are built as in every MMAction2 recognizer.
    Mode ``tensor`` returns the backbone's features of all clips, (2N, C', T', H', W'). Mode
    ``predict`` returns the samples with ``embedding``, (D,), the mean over the clips of a video.

    The parameters of the backbone are named ``backbone.…`` in a checkpoint. Downstream models
    load them with ``init_cfg=dict(type='Pretrained', checkpoint=…, prefix='backbone.')``.

    Args:
        backbone: Config of the encoder.
        chunk_size: Number of videos that are embedded at a time in training. The batch stays
            in uint8 and only the activations of one chunk are in memory, at the cost of about
            one more forward pass. The loss still contrasts the whole batch, and its gradients
            are exact. Batch norm in the backbone, however, normalises each chunk by itself
            (see :func:`embed_in_chunks`), so that the training is not the same as without
            chunks. Replaces ``recompute`` of the backbone, which is not compiled.
        cls_head: Config of the head. Without ``in_channels`` it gets the channels of the
            backbone's features.
        data_preprocessor: Config of the data preprocessor, by default ``ClipDataPreprocessor``.
            MMAction2's own preprocessor does not accept batches that the loader has stacked.
        kwargs: Further arguments of ``Recognizer3D``: ``neck``, …

    Raises:
        ValueError: ``chunk_size`` is not an integer of at least 1; it is combined with a neck,
            whose losses need the whole batch, with ``with_cp``, which would recompute everything
            twice, or with another preprocessor; or ``in_channels`` of the head does not match
            the backbone.
    """

    def __init__(
        self,
        backbone: dict,
        chunk_size: int | None = None,
        cls_head: dict | None = None,
        data_preprocessor: dict | None = None,
        **kwargs: object,
    ) -> None:
        self.chunk_size = chunk_size
        data_preprocessor = data_preprocessor or dict(type='ClipDataPreprocessor')
        if data_preprocessor['type'] in STOCK_PREPROCESSORS:
            data_preprocessor = {**data_preprocessor, 'type': 'ClipDataPreprocessor'}
        if chunk_size is not None:
            if not isinstance(chunk_size, int) or chunk_size < 1:
                raise ValueError(f'chunk_size counts videos, at least 1, got {chunk_size}.')
            if kwargs.get('neck') is not None or backbone.get('with_cp'):
                raise ValueError('chunk_size works without a neck and without with_cp.')
            backbone = {k: v for k, v in backbone.items() if k != 'recompute'}
        super().__init__(backbone, data_preprocessor=data_preprocessor, **kwargs)
        if chunk_size is not None:
            if not isinstance(self.data_preprocessor, ClipDataPreprocessor):
                raise ValueError('chunk_size needs a data_preprocessor of this package.')
            self.data_preprocessor.in_chunks = True  # leaves training batches in uint8
            self.backbone.compiled = False  # its norms change between the chunks
        if cls_head is not None:
            channels = getattr(self.backbone, 'out_channels', None)
            if channels is not None and not self.with_neck:
                cls_head = {'in_channels': channels, **cls_head}
                check_head_channels(self.backbone, cls_head['in_channels'])
            self.cls_head = MODELS.build(cls_head)

    def train(self, mode: bool = True) -> 'CVRL':
        """Set training mode, also for the norms of the head."""
        super().train(mode)
        trace_sync_norms(self)
        return self

    def loss(
        self, inputs: Tensor, data_samples: list[ActionDataSample], **kwargs: object
    ) -> dict[str, Tensor]:
        """Compute the contrastive loss of a batch (CVRL, Eq. 1).

        Args:
            inputs: Pairs of clips, (N, 2, C, T, H, W).
            data_samples: N samples; their labels are not used.
            kwargs: Passed to ``Recognizer3D.loss``.

        Returns:
            The head's losses and statistics.

        Raises:
            ValueError: The input does not hold two clips per video.
        """
        if inputs.ndim != 6 or inputs.shape[1] != 2:
            raise ValueError(
                'CVRL trains on two clips per video, (N, 2, C, T, H, W), but got '
                f'{tuple(inputs.shape)}; sample them with TemporalIntervalSample and end the '
                "pipeline with FormatShape(input_format='NCTHW')."
            )
        if self.chunk_size is None:
            return super().loss(inputs, data_samples, **kwargs)
        feats = embed_in_chunks(self._embed, inputs, self.chunk_size, self.backbone)
        return self.cls_head.loss(feats, data_samples)

    def _embed(self, videos: Tensor) -> Tensor:
        """Map uint8 pairs of clips, (n, 2, C, T, H, W), to pooled features, (2n, C')."""
        clips, _ = self.data_preprocessor.preprocess(videos, data_samples=None, training=True)
        return global_average_pool(self.backbone(clips.flatten(0, 1)))


def embed_in_chunks(
    embed: Callable[[Tensor], Tensor], videos: Tensor, chunk_size: int, network: nn.Module
) -> Tensor:
    """Embed a batch while keeping the activations of only one chunk in memory.

    The activations of a chunk are discarded and computed again in the backward pass, with the
    same random draws. The loss sees the embeddings of the whole batch, and its gradients are
    exact. In training mode, batch norm normalises each chunk by the statistics of this chunk
    (over all ranks if it is synchronised). The result therefore differs from one pass over the
    whole batch. The running statistics are updated once per step, with the mean over the chunks.

    Args:
        embed: Maps (n, …) to (m, D) for any n.
        videos: The batch, (N, …).
        chunk_size: n; the last chunk may be smaller.
        network: The network that ``embed`` runs; its batch norms are updated as described.

    Returns:
        The embeddings of all videos, in the order of the batch.
    """
    chunks = videos.split(chunk_size)

    def contexts(index: int) -> tuple[AbstractContextManager, AbstractContextManager]:
        return part_of_update(network, index, len(chunks)), part_of_update(network, None)

    feats = [
        checkpoint(embed, chunk, use_reentrant=False, context_fn=partial(contexts, i))
        for i, chunk in enumerate(chunks)
    ]
    return torch.cat(feats)

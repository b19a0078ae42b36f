"""The CVRL recognizer."""

from mmaction.models.recognizers import Recognizer3D
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import Tensor

from .chunked import embed_in_chunks
from .deferred_preprocessor import DeferredPreprocessor
from .head_channels import check_head_channels
from .pooling import global_average_pool

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
            (see :func:`.chunked.embed_in_chunks`), so that the training is not the same as
            without chunks. Replaces ``recompute`` of the backbone.
        cls_head: Config of the head. Without ``in_channels`` it gets the channels of the
            backbone's features.
        data_preprocessor: Config of the data preprocessor, by default ``ClipDataPreprocessor``.
            MMAction2's own preprocessor does not accept batches that the loader has stacked.
        kwargs: Further arguments of ``Recognizer3D``: ``neck``, …

    Raises:
        ValueError: ``chunk_size`` is not an integer of at least 1; it is combined with a neck,
            whose losses need the whole batch, or with ``with_cp``, which would recompute everything
            twice; or ``in_channels`` of the head does not match the backbone.
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
        if data_preprocessor and data_preprocessor.get('type') in STOCK_PREPROCESSORS:
            data_preprocessor = {**data_preprocessor, 'type': 'ClipDataPreprocessor'}
        if chunk_size is not None:
            is_count = isinstance(chunk_size, int) and chunk_size >= 1
            if not is_count or kwargs.get('neck') is not None:
                raise ValueError(
                    'chunk_size counts videos, at least 1, and works without a neck, got '
                    f'chunk_size={chunk_size} and neck={kwargs.get("neck")}.'
                )
            if backbone.get('with_cp'):
                raise ValueError(
                    'chunk_size recomputes all activations; leave out with_cp of the backbone.'
                )
            backbone = {k: v for k, v in backbone.items() if k != 'recompute'}
            preprocessor = data_preprocessor or dict(type='ClipDataPreprocessor')
            data_preprocessor = DeferredPreprocessor(preprocessor)
        super().__init__(backbone, data_preprocessor=data_preprocessor, **kwargs)
        if cls_head is not None:
            self.cls_head = MODELS.build(self._with_in_channels(cls_head))

    def _with_in_channels(self, cls_head: dict) -> dict:
        """Set ``in_channels`` in the head's config, or check the given value."""
        channels = getattr(self.backbone, 'out_channels', None)
        if channels is None or self.with_neck:
            return cls_head
        check_head_channels(self.backbone, cls_head.get('in_channels', channels))
        return {**cls_head, 'in_channels': channels}

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
        clips = self.data_preprocessor.finish(videos).flatten(0, 1)
        return global_average_pool(self.backbone(clips))

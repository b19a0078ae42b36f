"""The CVRL recognizer."""

from mmaction.models.recognizers import Recognizer3D
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import Tensor

from .chunked import embed_in_chunks
from .deferred_preprocessor import DeferredPreprocessor
from .pooling import global_average_pool

STOCK_PREPROCESSORS = ('ActionDataPreprocessor', 'mmaction.ActionDataPreprocessor')


@MODELS.register_module()
class CVRL(Recognizer3D):
    """Learn video features from pairs of clips without labels (CVRL, Sec. 3.1, Figure 2).

    Backbone, neck, head and data preprocessor are built as in every MMAction2 recognizer;
    mode ``tensor`` gives the backbone's features of all clips, (2N, C', T', H', W'), and mode
    ``predict`` the samples with ``embedding``, (D,), the mean over a video's clips.

    The backbone's parameters are named ``backbone.…`` in a checkpoint, so that downstream
    models take them by ``init_cfg=dict(type='Pretrained', checkpoint=…, prefix='backbone.')``.

    Args:
        backbone: Config of the encoder.
        chunk_size: Videos that are embedded at a time in training. The batch then waits as
            uint8 and only one chunk's activations are in memory, for about one more forward
            pass of time; the loss still sees the whole batch and its gradients are exact. Batch
            norm in the backbone sees one chunk (see :func:`.chunked.embed_in_chunks`).
        data_preprocessor: Config of the data preprocessor. ``ClipDataPreprocessor`` takes the
            place of MMAction2's, which does not accept batches that the loader has stacked.
        kwargs: What ``Recognizer3D`` takes: ``cls_head``, ``neck``, …

    Raises:
        ValueError: ``chunk_size`` is below 1, or comes with a neck, whose losses need the
            whole batch, or with ``with_cp``, which would compute everything three times and
            count its batch-norm statistics once more for each chunk.
    """

    def __init__(
        self,
        backbone: dict,
        chunk_size: int | None = None,
        data_preprocessor: dict | None = None,
        **kwargs: object,
    ) -> None:
        self.chunk_size = chunk_size
        if (data_preprocessor or {}).get('type') in STOCK_PREPROCESSORS:
            data_preprocessor = {**data_preprocessor, 'type': 'ClipDataPreprocessor'}
        if chunk_size is not None:
            if chunk_size < 1 or kwargs.get('neck') is not None:
                raise ValueError(
                    'chunk_size counts videos, at least 1, and works without a neck, got '
                    f'chunk_size={chunk_size} and neck={kwargs.get("neck")}.'
                )
            if backbone.get('with_cp'):
                raise ValueError(
                    'chunk_size recomputes all activations; leave out with_cp of the backbone.'
                )
            preprocessor = data_preprocessor or dict(type='ClipDataPreprocessor')
            data_preprocessor = DeferredPreprocessor(preprocessor)
        super().__init__(backbone, data_preprocessor=data_preprocessor, **kwargs)

    def loss(
        self, inputs: Tensor, data_samples: list[ActionDataSample], **kwargs: object
    ) -> dict[str, Tensor]:
        """Contrast the two clips of each video with those of all others.

        Args:
            inputs: Pairs of clips, (N, 2, C, T, H, W).
            data_samples: N samples; labels are not looked at.
            kwargs: Passed on.

        Returns:
            The head's losses and statistics.

        Raises:
            ValueError: the input does not hold two clips a video.
        """
        if inputs.ndim != 6 or inputs.shape[1] != 2:
            raise ValueError(
                'CVRL trains on two clips a video, (N, 2, C, T, H, W), but got '
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

"""The CVRL recognizer."""

from mmaction.models.recognizers import Recognizer3D
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import Tensor


@MODELS.register_module()
class CVRL(Recognizer3D):
    """Learn video features from pairs of clips without labels (CVRL, Sec. 3.1, Figure 2).

    Backbone, neck, head and data preprocessor are built as in every MMAction2 recognizer;
    mode ``tensor`` gives the backbone's features of all clips, (2N, C', T', H', W'), and mode
    ``predict`` the samples with ``embedding``, (D,), the mean over a video's clips.

    The backbone's parameters are named ``backbone.…`` in a checkpoint, so that downstream
    models take them by ``init_cfg=dict(type='Pretrained', checkpoint=…, prefix='backbone.')``.
    """

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
        return super().loss(inputs, data_samples, **kwargs)

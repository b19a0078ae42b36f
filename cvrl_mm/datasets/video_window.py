"""Treat a part of a long video as a separate video."""

from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


@TRANSFORMS.register_module()
class VideoWindow(BaseTransform):
    """Restrict sampling to one window of a long video.

    A file of L frames has n = max(1, L // ``window_frames``) windows of L // n frames each. In a
    list for pre-training, which needs no labels, the file has n lines with the numbers 0 to n - 1
    in place of the label. The lines of a file then yield different frames. Use this transform
    between opening and sampling.

    Required keys: ``total_frames``, ``label``. Modified keys: ``total_frames``, ``start_index``.

    Args:
        window_frames: Minimal length of a window in frames.

    Raises:
        ValueError: ``window_frames`` is below 1.
    """

    def __init__(self, window_frames: int) -> None:
        if window_frames < 1:
            raise ValueError(f'window_frames must be at least 1, got {window_frames}.')
        self.window_frames = window_frames

    def transform(self, results: dict) -> dict:
        """Set the first frame and the number of frames to those of the window.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict.
        """
        windows = max(1, results['total_frames'] // self.window_frames)
        frames = results['total_frames'] // windows
        results['start_index'] = results.get('start_index', 0) + results['label'] % windows * frames
        results['total_frames'] = frames
        return results

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(window_frames={self.window_frames})'

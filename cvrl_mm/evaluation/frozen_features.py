"""Labels of lists; moves to datasets.lists."""

from mmengine.config import ConfigDict

from ..datasets.lists import VideoList


def video_list(dataset: ConfigDict) -> VideoList:
    """Read the list of a dataset as :class:`VideoListDataset` reads it.

    Args:
        dataset: Config of a dataset with a list of videos.
    """
    prefix = (dataset.get('data_prefix') or {}).get('video') or ''
    return VideoList(dataset.ann_file, dataset.get('delimiter', ' '), prefix)


def check_labels(dataset: ConfigDict, num_classes: int | None) -> set[int]:
    """Check that all videos of a list have valid labels.

    Args:
        dataset: Config of a dataset with a list of videos.
        num_classes: Number of classes; None accepts any label that is not missing.

    Returns:
        The labels of the list; empty for a dataset with several labels per video.

    Raises:
        ValueError: A label is missing or out of range; the message names the list and the line.
    """
    labels: set[int] = set()
    if dataset.get('multi_class'):
        return labels
    for number, video in enumerate(video_list(dataset), start=1):
        label = video['label']
        if label < 0 or (num_classes is not None and label >= num_classes):
            what = 'has no label' if label < 0 else f'has the label {label}'
            classes = '' if num_classes is None else f' num_classes={num_classes}:'
            raise ValueError(
                f'{dataset.ann_file}, line {number}: {video["filename"]} {what};{classes} correct '
                'the list or model.cls_head.num_classes.'
            )
        labels.add(label)
    return labels

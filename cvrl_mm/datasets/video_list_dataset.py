"""Videos named by a list, with or without labels."""

import os.path as osp

import numpy as np
from mmaction.datasets import VideoDataset
from mmaction.registry import DATASETS
from mmengine.fileio import exists, list_from_file

PROBED_FILES = 100
MAX_MISSING = 0.05


@DATASETS.register_module()
class VideoListDataset(VideoDataset):
    """MMAction2's ``VideoDataset`` with a list that is checked when it is read.

    A line is ``path`` or ``path label``, the path relative to ``data_prefix['video']``; it may
    hold spaces. Pre-training needs no labels. A hundred files, spread over the list, are
    looked for, so that a wrong prefix shows before the first epoch.
    """

    def load_data_list(self) -> list[dict]:
        """Read the list.

        Returns:
            One dict a line with ``filename`` and ``label``, -1 without one.

        Raises:
            FileNotFoundError: the list, or more than 5 % of the files looked for, do not exist.
            ValueError: the list is empty, or a line names no file.
        """
        if not exists(self.ann_file):
            raise FileNotFoundError(f'There is no video list {self.ann_file}; set ann_file.')
        if self.multi_class:
            videos = super().load_data_list()
        else:
            lines = list_from_file(self.ann_file)
            videos = [self._parse(line, number) for number, line in enumerate(lines, 1)]
        if not videos:
            raise ValueError(f'The video list {self.ann_file} is empty.')
        self._look_for_files(videos)
        return videos

    def _parse(self, line: str, number: int) -> dict:
        path, _, label = line.strip().rpartition(self.delimiter)
        if not label.lstrip('-').isdigit():  # a path alone, perhaps with spaces
            path, label = line.strip(), -1
        if not path:
            raise ValueError(
                f'{self.ann_file}, line {number}: {line!r} names no file; '
                'a line is "path" or "path label".'
            )
        return dict(filename=osp.join(self.data_prefix['video'] or '', path), label=int(label))

    def _look_for_files(self, videos: list[dict]) -> None:
        places = np.unique(np.linspace(0, len(videos) - 1, PROBED_FILES).astype(int))
        missing = [i for i in places if not exists(videos[i]['filename'])]
        if len(missing) > MAX_MISSING * len(places):
            first = missing[0]
            raise FileNotFoundError(
                f'{self.ann_file}: {len(missing)} of {len(places)} files looked for do not exist, '
                f'the first one in line {first + 1}: {videos[first]["filename"]}; '
                f'correct the list or data_prefix={dict(self.data_prefix)}.'
            )

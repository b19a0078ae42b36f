"""The parts of the detectors that MMAction2 and mmdet lack."""

from typing import Any

import torch.nn.functional as F
from mmaction.models.roi_heads import BBoxHeadAVA
from mmaction.structures import ActionDataSample
from mmdet.models.detectors import TwoStageDetector
from mmdet.registry import MODELS
from mmengine.structures import InstanceData
from torch import Tensor


@MODELS.register_module()
class AllBoxesHeadAVA(BBoxHeadAVA):
    """The action head of AVA, trained on all sampled boxes, as in SlowFast.

    MMAction2's head trains only boxes with an action. SlowFast also trains detected people that
    match no annotated person, with no action as their target (``label == -1`` in
    ``load_boxes_and_labels`` of its ``ava_helper.py``). It has the
    arguments of ``BBoxHeadAVA``, whose sigmoid classifier of all classes but the first is used.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(background_class=True, multilabel=True, **kwargs)

    def loss_and_target(self, cls_score: Tensor, *args: Any, **kwargs: Any) -> dict:
        """Compute the loss over all boxes, and the recall and precision over those with actions.

        Args:
            cls_score: Logits of the boxes, (K, num_classes).
            *args: Further arguments of ``BBoxHeadAVA``.
            **kwargs: Further arguments of ``BBoxHeadAVA``.

        Returns:
            Losses, and the targets, (K, num_classes), with their weights.
        """
        result = super().loss_and_target(cls_score, *args, **kwargs)
        targets = result['bbox_targets'][0][:, 1:]
        loss = F.binary_cross_entropy_with_logits(cls_score[:, 1:], targets, reduction='none')
        focal = self.focal_alpha * (1 - (-loss).exp()) ** self.focal_gamma
        result['loss_bbox']['loss_action_cls'] = (focal * loss).mean()
        return result


@MODELS.register_module()
class ActionFasterRCNN(TwoStageDetector):
    """Faster R-CNN on clips: detects people at the key frame and their actions.

    The region proposal network has one class, person, and takes the features of the backbone
    averaged over the clip, with the key frame at its centre. The action head pools the same
    features over time and space, at the annotated boxes and at the proposals that match them.
    Both are trained together. As with given person boxes, and unlike in object detection, the
    second stage does not refine the boxes.

    See ``TwoStageDetector`` for the arguments. ``train_cfg.rpn_proposal`` selects the boxes
    for the action head in training, ``test_cfg.rpn`` the ones that are returned in testing.
    """

    def loss(self, inputs: Tensor, data_samples: list[ActionDataSample]) -> dict:
        """Compute the losses of people and actions.

        Args:
            inputs: Clips, (N, C, T, H, W).
            data_samples: N samples with ``gt_instances``: boxes in pixels, (K, 4), and actions,
                (K, num_classes) of 0 and 1.

        Returns:
            Losses of the region proposal network and of the action head.
        """
        feats = self.extract_feat(inputs)  # (N, C', T', H', W')
        people = [as_people(sample) for sample in data_samples]
        losses, proposals = self.rpn_head.loss_and_predict(
            mean_over_time(feats), people, proposal_cfg=self.train_cfg.rpn_proposal
        )
        return {**losses, **self.roi_head.loss(feats, proposals, data_samples)}

    def predict(
        self, inputs: Tensor, data_samples: list[ActionDataSample], rescale: bool = True
    ) -> list[ActionDataSample]:
        """Detect people and score their actions.

        Args:
            inputs: One clip, (1, C, T, H, W); MMAction2's action head tests no larger batches.
            data_samples: The sample of the clip.
            rescale: Unused. Boxes are fractions of the frame, as everywhere in MMAction2.

        Returns:
            The sample with ``pred_instances``: boxes as fractions of the frame, (K, 4), and
            scores, (K, num_classes): the probability of the action times the person's.
        """
        feats = self.extract_feat(inputs)
        proposals = self.rpn_head.predict(mean_over_time(feats), data_samples, rescale=False)
        results = self.roi_head.predict(feats, proposals, data_samples)
        for result, people in zip(results, proposals, strict=True):
            result.scores = result.scores * people.scores[:, None]
        return self.add_pred_to_datasample(data_samples, results)


def mean_over_time(feats: Tensor) -> tuple[Tensor]:
    """Average (N, C, T, H, W) over the clip into one level, (N, C, H, W)."""
    return (feats.mean(2),)


def as_people(sample: ActionDataSample) -> ActionDataSample:
    """Replace the actions of all boxes by the single class of the region proposal network."""
    boxes = sample.gt_instances.bboxes
    # frames are not padded
    people = ActionDataSample(metainfo={**sample.metainfo, 'pad_shape': sample.img_shape})
    people.gt_instances = InstanceData(bboxes=boxes, labels=boxes.new_zeros(len(boxes)).long())
    return people

"""An action detector that needs no person boxes."""

from mmaction.structures import ActionDataSample
from mmdet.models.detectors import TwoStageDetector
from mmdet.registry import MODELS
from mmengine.structures import InstanceData
from torch import Tensor


@MODELS.register_module()
class ActionFasterRCNN(TwoStageDetector):
    """Faster R-CNN on clips: detects people at the key frame and their actions.

    The region proposal network has one class, person, and takes the features of the backbone
    averaged over the clip, with the key frame at its centre. The action head pools the same
    features over time and space, at the annotated boxes and at the proposals that match them.
    Both are trained together. As with given person boxes, and unlike in object detection, the
    second stage does not refine the boxes.

    The arguments are those of ``TwoStageDetector``. ``train_cfg.rpn_proposal`` selects the boxes
    for the action head in training, ``test_cfg.rpn`` those that are returned in testing.
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
            scores, (K, num_classes): the probability of the action times that of a person.
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

"""A detector of actions that needs no person boxes."""

from mmaction.structures import ActionDataSample
from mmdet.models.detectors import TwoStageDetector
from mmdet.registry import MODELS
from mmengine.structures import InstanceData
from torch import Tensor


@MODELS.register_module()
class ActionFasterRCNN(TwoStageDetector):
    """Faster R-CNN on clips: finds people at the key frame and what they do.

    The region proposal network looks at the backbone's features averaged over the clip, whose
    centre the key frame is; its only class is a person. The action head pools from the same
    features, over time as well, at the annotated boxes and at the proposals that fit them, and
    both are trained in one stage. The region proposal network's boxes are final: unlike in
    detection of objects, the second stage does not refine them, as with given person boxes.

    Arguments are ``TwoStageDetector``'s. ``train_cfg.rpn_proposal`` and ``test_cfg.rpn`` say
    which boxes reach the action head in training and are returned in testing.
    """

    def loss(self, inputs: Tensor, data_samples: list[ActionDataSample]) -> dict:
        """Train people and actions together.

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
            over_time(feats), people, proposal_cfg=self.train_cfg.rpn_proposal
        )
        return {**losses, **self.roi_head.loss(feats, proposals, data_samples)}

    def predict(
        self, inputs: Tensor, data_samples: list[ActionDataSample], rescale: bool = True
    ) -> list[ActionDataSample]:
        """Find people and score their actions.

        Args:
            inputs: One clip, (1, C, T, H, W), as MMAction2's action head takes it.
            data_samples: Its sample.
            rescale: Boxes are always fractions of the frame, as MMAction2's are.

        Returns:
            The sample with ``pred_instances``: boxes as fractions, (K, 4), and scores,
            (K, num_classes): probabilities of the actions times that of being a person.
        """
        feats = self.extract_feat(inputs)
        proposals = self.rpn_head.predict(over_time(feats), data_samples, rescale=False)
        results = self.roi_head.predict(feats, proposals, data_samples)
        for result, people in zip(results, proposals, strict=True):
            result.scores = result.scores * people.scores[:, None]
        return self.add_pred_to_datasample(data_samples, results)


def over_time(feats: Tensor) -> tuple[Tensor]:
    """Average (N, C, T, H, W) over the clip into one level, (N, C, H, W)."""
    return (feats.mean(2),)


def as_people(sample: ActionDataSample) -> ActionDataSample:
    """Annotate everybody as class 0 of 1, whatever they do."""
    boxes = sample.gt_instances.bboxes
    # no picture is padded
    people = ActionDataSample(metainfo={**sample.metainfo, 'pad_shape': sample.img_shape})
    people.gt_instances = InstanceData(bboxes=boxes, labels=boxes.new_zeros(len(boxes)).long())
    return people

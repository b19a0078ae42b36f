from mmaction.structures import ActionDataSample

from cvrl_mm.engine.batches import samples_of


def test_finds_the_samples_of_a_batch():
    samples = [ActionDataSample(), ActionDataSample()]
    assert samples_of(dict(inputs=None, data_samples=samples)) is samples


def test_other_batches_have_no_samples():
    assert samples_of(dict(x=1)) == samples_of([1, 2]) == samples_of(None) == []

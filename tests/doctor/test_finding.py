from cvrl_mm.doctor.finding import Finding


def test_a_line_names_status_subject_and_advice():
    assert str(Finding('ok', 'torch', '2.4.1')) == 'ok      torch: 2.4.1'
    finding = Finding('problem', 'mmdet', 'missing', 'pip install mmdet')
    assert str(finding) == 'problem mmdet: missing -> pip install mmdet'

from claims import CLAIMS, compare
from tables import TABLES, measures_by_run


def test_every_claim_compares_rows_and_measures_of_the_tables():
    measured = measures_by_run(list(TABLES))
    for claim in CLAIMS:
        for run, measure in (claim.higher, claim.lower):
            assert measure in measured[run], claim.what


def test_claims_agree_with_the_papers_numbers():
    paper = {
        (row.run, measure): number
        for table in TABLES.values()
        for row in table.rows
        for measure, number in row.paper.items()
    }
    checked = [c for c in CLAIMS if c.higher in paper and c.lower in paper]
    assert len(checked) >= 15
    for claim in checked:
        assert paper[claim.higher] > paper[claim.lower], claim.what
        assert claim.source != 'control', claim.what


def test_difference_is_in_percentage_points_over_shared_seeds():
    results = {
        'cvrl_motion': {0: {'linear': 0.7}, 1: {'linear': 0.8}, 2: {}},
        'random': {0: {'linear': 0.2}, 1: {'linear': 0.2}, 2: {'linear': 0.3}},
    }
    difference = compare(CLAIMS[0], results)
    assert round(difference.mean, 6) == 55
    assert difference.num_seeds == 2

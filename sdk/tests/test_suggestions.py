"""What somebody who mistyped a name most likely meant."""

from tracelake_sdk.suggestions import did_you_mean, nearest

NAMES = ["bakery", "ranges", "bakery/ingest_sales"]


def test_the_nearest_name_is_suggested_whatever_its_case():
    assert did_you_mean("bakry", NAMES, "look.") == "did you mean bakery?"
    assert did_you_mean("BAKERY", NAMES, "look.") == "did you mean bakery?"
    assert did_you_mean("bakery/ingest_sale", NAMES, "look.") == "did you mean bakery/ingest_sales?"


def test_where_nothing_is_near_the_list_is_named():
    assert did_you_mean("warehouse", NAMES, "look.") == "look."
    assert did_you_mean("x" * 100_000, NAMES, "look.") == "look."


def test_case_does_not_matter_and_the_name_is_returned_as_defined() -> None:
    assert nearest("bigintt", {"BIGINT", "INT"}) == "BIGINT"
    assert nearest("ORDRS", {"orders"}) == "orders"

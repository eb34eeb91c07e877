import pytest

from tracelake_sdk.dags.spark_schemas import check_types


@pytest.mark.parametrize(
    "columns",
    [
        "id BIGINT, amount decimal(10,2) NOT NULL COMMENT 'net, not FOO', at timestamp_ntz",
        "`odd name` ARRAY<STRUCT<x: INT, y: MAP<STRING, DOUBLE>>>, day date",
        "id BIGINT,", "BIGINT", "", "id 7",  # Spark takes none of these, and says so itself
    ],
)  # fmt: skip
def test_everything_but_an_unknown_type_is_left_to_spark(columns: str):
    check_types(columns)


def test_what_is_very_long_or_deep_is_left_to_spark():
    check_types("id BIGNT COMMENT '" + "\\'" * 50_000)
    check_types("id " + "ARRAY<" * 1_200 + "BIGNT" + ">" * 1_200)
    check_types("id " + "STRUCT<a:" * 900 + "BIGNT" + ">" * 900)


@pytest.mark.parametrize(
    "columns, sentence",
    [
        ("id BIGNT, amount DECIMAL(10,2)", "the column id has the unknown type `BIGNT`; did you mean `BIGINT`?"),
        ("id BIGINT, tags ARRAY<STRUCT<x: INT, y: MAP<STRING, dubble>>>", "the column y has the unknown type `dubble`; did you mean `DOUBLE`?"),
        ("id BIGINT, `odd, name` varchr(10)", "the column `odd, name` has the unknown type `varchr`; did you mean `VARCHAR`?"),
        ("id qqq", "the column id has the unknown type `qqq`"),
    ],
)
def test_an_unknown_type_is_reported_with_the_nearest_one(columns: str, sentence: str):
    with pytest.raises(ValueError) as refused:
        check_types(columns)
    assert str(refused.value) == sentence

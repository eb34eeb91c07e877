"""Where a table is: for those who make it. Which Delta version a version is: for all who may know of it."""

import pytest
from support.lakes import BRONZE, Lake
from support.lines import load
from support.people import user

from tracelake_sdk.access import DagRight


@pytest.mark.proves("T5.2")
def test_the_place_of_a_table_is_shown_to_admins_and_deployers_alone(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    ann, bea = user(lake, "ann", "makers"), user(lake, "bea", "runners")
    lake.services.granting.grant(lake.admin, "sample", DagRight.DEPLOY, "makers")
    lake.services.granting.grant(lake.admin, "sample", DagRight.TRIGGER, "runners")
    explaining = lake.services.explaining
    uri = explaining.dataset(lake.admin, "sample_raw").location
    assert uri is not None and uri.endswith(str(lake.location())[1:])
    assert explaining.dataset(ann, "sample_raw").location == uri
    assert explaining.dataset(bea, "sample_raw").location is None


def test_a_version_names_the_delta_version_that_it_is(lake: Lake):
    lake.deploy(BRONZE)
    for number in (1, 2):
        load(lake, number)
    found = lake.services.explaining.versions(lake.admin, "sample_raw", before=None, limit=10).items
    assert {version.version: len(lake.rows(lake.location(), version.delta_version)) for version in found} == {1: 1, 2: 2}

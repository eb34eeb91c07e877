"""Both kinds of storage, each new and empty."""

from pathlib import Path

import pytest

from tracelake.settings import read_settings
from tracelake.storage.contract import Storage
from tracelake.storage.opening import open_storage

from .putting import StorageUnderTest


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.xdist_group("s3"))])
def storage_under_test(request: pytest.FixtureRequest, tmp_path: Path) -> StorageUnderTest:
    if request.param == "local":
        settings = read_settings(storage={"url": (tmp_path / "lake").as_uri()})
        return StorageUnderTest("local", {"TRACELAKE__STORAGE__URL": str(settings.storage.url)}, lambda watch: open_storage(settings, watch))
    server = request.getfixturevalue("s3_server")
    url = server.fresh_url()
    return StorageUnderTest("s3", server.environment(url), lambda watch: server.open(url, watch))


@pytest.fixture
def storage(storage_under_test: StorageUnderTest) -> Storage:
    return storage_under_test.open(lambda moment: None)

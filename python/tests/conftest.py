import os

import pytest

import opdock


@pytest.fixture(scope="session")
def host() -> opdock.Host:
    return opdock.Host()


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """Of random inputs; printed where a test fails."""
    value = int(os.environ.get("OPDOCK_TEST_SEED", "20261125"))
    print("seed", value)
    return value

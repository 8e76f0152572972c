import os

import pytest

import opdock

# Where tensors of torch are made, such as cuda: the tests of ops and models are tried on it then.
DEVICE = os.environ.get("OPDOCK_TEST_DEVICE", "cpu")

if DEVICE != "cpu":
    import torch

    torch.set_default_device(DEVICE)


@pytest.fixture(scope="session")
def host() -> opdock.Host:
    return opdock.Host()


@pytest.fixture(scope="session")
def device() -> str:
    """The type of it."""
    return DEVICE.split(":")[0]


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """Of random inputs; printed where a test fails."""
    value = int(os.environ.get("OPDOCK_TEST_SEED", "20261125"))
    print("seed", value)
    return value

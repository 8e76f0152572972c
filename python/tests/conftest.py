import os

import pytest

import opdock

# Device for torch's tensors, such as cuda: the tests of ops and models then run on it.
DEVICE = os.environ.get("OPDOCK_TEST_DEVICE", "cpu")

if DEVICE != "cpu":
    import torch

    torch.set_default_device(DEVICE)


@pytest.fixture(scope="session")
def host() -> opdock.Host:
    return opdock.Host()


@pytest.fixture(scope="session")
def device() -> str:
    """The device's type."""
    return DEVICE.split(":")[0]


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of random inputs; printed when a test fails."""
    value = int(os.environ.get("OPDOCK_TEST_SEED", "20261125"))
    print("seed", value)
    return value

"""Of its own, as the native module raises it and `opdock` imports that."""


class Error(RuntimeError):
    """What opdock refuses or a plugin fails with.

    `status` is a number of opdock.h, `name` that status's name, such as "UNSUPPORTED".
    """

    status: int
    name: str


Error.__module__ = "opdock"

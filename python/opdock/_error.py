"""The exception class, in a module of its own because the native module raises it and `opdock` imports that module."""


class Error(RuntimeError):
    """An error that opdock reports or that a plugin fails with.

    `status` is a number from opdock.h, `name` is the status's name, such as "UNSUPPORTED".
    """

    status: int
    name: str


Error.__module__ = "opdock"

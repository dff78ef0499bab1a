"""What can go wrong between a name and a model with weights."""

from vitscope.core.errors import VitscopeError


class UnknownModel(VitscopeError):
    """No model has this name; the message holds the nearest names."""


class UnknownArgument(VitscopeError):
    """The model exists and does not take this `argument`."""

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument


class BadWeights(VitscopeError):
    """A file of weights is missing, damaged, or made for another model."""


class UntrustedCode(VitscopeError):
    """A file names code, and the user has not allowed it; the message says what would run."""


class TwinWarning(UserWarning):
    """A name of timm's was built as its twin for small images."""


class CannotBuild(VitscopeError):
    """The model refuses the sizes or arguments it was asked to be built with."""

"""How hard the tests of wrong input try: the same few cases in `make test`, many random ones in `make test-slow`."""

from hypothesis import HealthCheck, settings


def few(count: int) -> settings:
    """The same cases each time."""
    return settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        max_examples=count,
    )


def many(count: int) -> settings:
    """New cases each time; a failure prints how to have it again."""
    return settings(few(count), derandomize=False, print_blob=True)

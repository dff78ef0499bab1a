from tests.report.conftest import runs

__all__ = ["runs"]

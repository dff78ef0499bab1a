from tests.findings.known_results import fourier_result, prediction_result, variance_result

__all__ = ["fourier_result", "prediction_result", "variance_result"]

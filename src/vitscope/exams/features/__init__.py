"""Exams of what units do to feature maps."""

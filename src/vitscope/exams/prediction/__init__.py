"""Exams of predictions."""

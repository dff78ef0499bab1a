"""Exams of what attention does."""

"""Exams of streams of frames."""

"""Exams under changed images."""

"""Exams of the loss around the weights."""

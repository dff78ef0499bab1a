"""What exams of robustness share."""

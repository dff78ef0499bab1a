"""What exams of features share."""

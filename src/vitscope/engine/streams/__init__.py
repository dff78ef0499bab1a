"""What exams of streams share."""

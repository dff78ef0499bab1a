"""What exams of attention share."""

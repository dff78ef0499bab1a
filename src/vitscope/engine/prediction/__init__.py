"""What exams of prediction share."""

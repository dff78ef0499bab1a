"""What exams of loss share."""

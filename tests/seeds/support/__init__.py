"""What tests of the seeds have in common."""

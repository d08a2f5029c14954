"""What four older systems asked of programs and their derivatives: a test for each demand."""

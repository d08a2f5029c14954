"""What evaluation leaves: functions and tags that data choose, and calls."""

"""Builds the leaderboard from finished runs."""

"""The leaderboard's static pages, section by section."""

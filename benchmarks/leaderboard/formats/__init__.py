"""The leaderboard as text: Markdown, LaTeX, JSON and CSV."""

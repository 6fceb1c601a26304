"""The protocol ``checklist``: rules change human captions, and metrics should notice."""

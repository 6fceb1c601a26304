"""The protocol ``checklist``: human captions are changed by rules, and metrics are asked whether they notice."""

"""Models behind a chat server: messages, requests, answers, and the adapters that use them."""

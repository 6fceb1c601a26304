"""Workers of the engines: what runs in them, and how a driver starts and hears them."""

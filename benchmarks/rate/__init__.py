"""Human ratings of captions in a browser, exported as a task."""

"""Classical tests of two metrics on the same rows, which suppose that rows are independent."""

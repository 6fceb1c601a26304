"""What protocols that ask a captioner share: how it is asked, and what is said of a part of the documents."""

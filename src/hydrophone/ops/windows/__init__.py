"""Windows of samples, and what is done with each."""

"""Windows of time over events, and the aggregates that they compute."""

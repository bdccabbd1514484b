"""From signals to events: intervals, peaks, triggers."""

"""How rows and partial aggregates travel between tasks."""

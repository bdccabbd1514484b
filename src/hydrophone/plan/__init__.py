"""The plan: frozen nodes, their types and reach, rewrites, stages and explanations."""

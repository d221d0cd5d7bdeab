"""The only importers of kopf: watches that fill the store, and nothing else."""

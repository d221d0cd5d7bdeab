"""The process: the work queue, the workers, `reconcile(key)`, and `act`, the single writer."""

"""What talks to the API server: the client façade, the object store, the lease, the events."""

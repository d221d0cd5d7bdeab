"""The Kubernetes objects of a service, made of its spec. Pure: values in, manifests out."""

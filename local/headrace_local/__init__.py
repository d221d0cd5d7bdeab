"""A real Kubernetes on one machine, from Go modules and Debian packages, for trying and testing Headrace.

The API server, its controllers, kubelet, containerd and DNS are the real ones; each cluster lives in a
network and a mount namespace of its own (`sandbox`), so that nothing of the machine is changed and everything
ends with its processes.
"""

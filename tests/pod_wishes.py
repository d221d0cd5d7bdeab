"""What a pod could ask for beyond what an engine needs: changes of its spec and its main container."""

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Change = Callable[[Object, Object], object]
SECRET_VARIABLE = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
FOREIGN_VARIABLE = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "k"}}}


def hub_token(*, name: str = "HF_TOKEN", key: str = "HF_TOKEN") -> Object:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "hub", "key": key}}}


WISHES: dict[str, Change] = {
    "another ServiceAccount": lambda pod, _: pod.update(serviceAccountName="admin"),
    "a token": lambda pod, _: pod.update(automountServiceAccountToken=True),
    "the host's network": lambda pod, _: pod.update(hostNetwork=True),
    "the host's processes": lambda pod, _: pod.update(hostPID=True),
    "a chosen node": lambda pod, _: pod.update(nodeName="n"),
    "a host port": lambda _, main: main["ports"][0].update(hostPort=8000),
    "the host's files": lambda pod, _: pod["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "a Secret mounted": lambda pod, _: pod["volumes"].append({"name": "s", "secret": {"secretName": "s"}}),
    "a projected token": lambda pod, _: pod["volumes"].append(
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    ),
    "another ConfigMap": lambda pod, _: pod["volumes"].append({"name": "c", "configMap": {"name": "other"}}),
    "a Secret in the environment": lambda _, main: main["env"].append(SECRET_VARIABLE),
    "another key as the hub's token": lambda _, main: main["env"].append(hub_token(key="password")),
    "the hub's token under another name": lambda _, main: main["env"].append(hub_token(name="X")),
    "another ConfigMap in the environment": lambda _, main: main["env"].append(FOREIGN_VARIABLE),
    "a whole Secret in the environment": lambda _, main: main.update(envFrom=[{"secretRef": {"name": "s"}}]),
    "root": lambda pod, _: pod["securityContext"].update(runAsUser=0),
    "root in the container": lambda _, main: main["securityContext"].update(runAsUser=0),
    "privilege": lambda _, main: main["securityContext"].update(
        privileged=True, allowPrivilegeEscalation=True
    ),
    "a capability": lambda _, main: main["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "no seccomp": lambda pod, _: pod["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "an unbounded init container": lambda pod, _: pod.update(initContainers=[{"name": "i", "image": "i"}]),
    "the cluster's own priority": lambda pod, _: pod.update(priorityClassName="system-node-critical"),
}

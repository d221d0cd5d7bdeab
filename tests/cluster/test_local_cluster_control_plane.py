"""The control plane alone is a whole Kubernetes API: it authorizes, refuses, and collects garbage."""

import json
import urllib.error
import urllib.request

import pytest

from headrace_local import lifecycle
from headrace_local.cluster import Cluster
from headrace_local.pki import Pki
from headrace_local.probe import ClusterError
from headrace_local.status import read_status

pytestmark = pytest.mark.cluster


def test_the_api_server_knows_its_version(control_plane: Cluster):
    version = json.loads(control_plane.kubectl("version", "-o", "json"))["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "34")
    assert version["gitVersion"].startswith("v1.34.")


def test_nobody_is_served_without_the_cluster_s_own_authority(control_plane: Cluster):
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{control_plane.url}/api/v1/namespaces", timeout=5)


def test_a_service_account_may_do_nothing_by_default(control_plane: Cluster):
    with pytest.raises(ClusterError, match="Forbidden"):
        control_plane.kubectl("get", "secrets", "--as=system:serviceaccount:default:default")


def test_a_node_may_not_read_what_is_not_bound_to_it(control_plane: Cluster):
    kubelet = Pki(control_plane.state.pki).kubeconfig("kubelet")
    with pytest.raises(ClusterError, match="Forbidden"):
        control_plane.kubectl("--kubeconfig", str(kubelet), "get", "secrets", "-A")


def test_a_node_may_not_label_another(control_plane: Cluster):
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}}
    control_plane.apply([other])
    kubelet = Pki(control_plane.state.pki).kubeconfig("kubelet")
    with pytest.raises(ClusterError, match="Forbidden"):
        control_plane.kubectl("--kubeconfig", str(kubelet), "label", "node", "other", "mine=true")
    control_plane.kubectl("delete", "node", "other")


def test_a_restricted_namespace_refuses_a_privileged_pod_and_says_why(control_plane: Cluster, pod_manifest):
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "guarded", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    control_plane.apply([namespace])
    _await_default_account(control_plane, "guarded")
    good = pod_manifest("good")
    bad = pod_manifest("bad", container={"securityContext": {"privileged": True}})

    control_plane.kubectl("create", "-n", "guarded", "-f", "-", stdin=json.dumps(good))
    with pytest.raises(ClusterError, match='violates PodSecurity "restricted:latest": privileged'):
        control_plane.kubectl("create", "-n", "guarded", "-f", "-", stdin=json.dumps(bad))


def test_what_an_object_owns_goes_with_it(control_plane: Cluster):
    control_plane.kubectl("create", "configmap", "owner")
    uid = control_plane.kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": "default", "ownerReferences": [owner]},
    }
    control_plane.apply([owned])

    control_plane.kubectl("delete", "configmap", "owner")
    control_plane.kubectl("wait", "--for=delete", "configmap/owned", "--timeout=60s")


def test_helm_installs_here_and_nowhere_else(control_plane: Cluster, tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0}")
    (tmp_path / "templates" / "map.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: charted}}"
    )
    control_plane.helm("install", "small", str(tmp_path))
    assert "charted" in control_plane.kubectl("get", "configmaps", "-o", "name")
    control_plane.helm("uninstall", "small")


def test_a_second_start_joins_the_running_cluster(control_plane: Cluster):
    before = control_plane.daemons.all()
    joined = lifecycle.up(control_plane.name, node=False)
    assert joined.daemons.all() == before
    assert joined.url == control_plane.url


def test_status_tells_what_runs(control_plane: Cluster):
    status = read_status(control_plane.name)
    assert (status.state, status.api_ready, status.node_ready) == ("running", True, None)
    assert [component.name for component in status.components] == [
        "sandbox",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    assert all(component.alive and component.memory_bytes for component in status.components)


def _await_default_account(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=60s")

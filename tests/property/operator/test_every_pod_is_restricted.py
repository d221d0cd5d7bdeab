"""Whatever a valid spec says, the pod is one that Pod Security's `restricted` admits, and no text of a shell.

The checks are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
"""

from hypothesis import given
from operator_builders import SETTINGS
from operator_strategies import service_of, spec_documents

from headrace_operator.api.spec import Limits
from headrace_operator.render.children import children

ALLOWED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim"}


def rendered(document):
    spec = service_of(document)
    made = children(
        spec, replicas=1, limits=Limits(8, 512), image=SETTINGS.engine_image, admin_keys=SETTINGS.admin_keys
    )
    return spec, {manifest["kind"]: manifest for manifest in made}


@given(spec_documents())
def test_the_pod_is_restricted(document):
    _, made = rendered(document)
    pod = made["Deployment"]["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for volume in pod["volumes"]:
        assert set(volume) - {"name"} <= ALLOWED_VOLUMES
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in security
        assert not any("hostPort" in port for port in container.get("ports", ()))
        assert all("subPath" not in mount for mount in container["volumeMounts"])


@given(spec_documents())
def test_nothing_of_the_spec_reaches_a_shell_or_is_expanded(document):
    spec, made = rendered(document)
    [container] = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "command" not in container
    assert container["args"][0] == "serve"
    assert spec.model.served_name in container["args"]
    assert all("$(" not in argument.replace("$$", "") for argument in container["args"])


@given(spec_documents())
def test_every_child_is_owned_by_the_service_and_carries_its_label(document):
    spec, made = rendered(document)
    for manifest in made.values():
        [owner] = manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (spec.uid, True)
        assert manifest["metadata"]["labels"]["headrace.dev/inferenceservice"] == spec.name
        assert manifest["metadata"]["namespace"] == spec.namespace

"""Whatever a valid spec says, the pod is one that Pod Security's `restricted` admits, and no text of a shell.

The checks are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
"""

from hypothesis import given
from operator_builders import SETTINGS
from operator_strategies import service_of, spec_documents

from headrace_operator.api.spec import Limits, Runtime
from headrace_operator.render.children import children
from headrace_operator.render.containers import escaped

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
    pod = made["Deployment"]["spec"]["template"]["spec"]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container.get("command") in (None, ["vllm", "serve"]), "no text of the spec"
        values = [variable["value"] for variable in container["env"] if "value" in variable]
        for text in (*container["args"], *values):
            assert "$" not in text.replace("$$", ""), "Kubernetes would replace it"
    arguments = [text.replace("$$", "$") for text in pod["containers"][0]["args"]]
    first = 1 if spec.engine.runtime is Runtime.VLLM else 2
    assert tuple(arguments[first : first + len(spec.engine.args)]) == spec.engine.args
    assert spec.model.served_name in arguments


@given(spec_documents())
def test_a_flag_and_a_variable_of_the_spec_come_before_those_that_must_win(document):
    spec, made = rendered(document)
    [engine] = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    ours = engine["args"].index("--served-model-name")
    assert all(engine["args"].index(escaped(text)) < ours for text in spec.engine.args)
    names = [variable["name"] for variable in engine["env"]]
    assert all(names.index(name) < names.index("HOME") for name, _ in spec.engine.env)


@given(spec_documents())
def test_secrets_are_named_by_one_key_alone_and_only_where_a_model_is_downloaded(document):
    spec, made = rendered(document)
    pod = made["Deployment"]["spec"]["template"]["spec"]
    named = [
        variable["valueFrom"]["secretKeyRef"]
        for container in (*pod.get("initContainers", ()), *pod["containers"])
        for variable in container["env"]
        if "secretKeyRef" in variable.get("valueFrom", {})
    ]
    wanted = [{"name": spec.model.token_secret, "key": "HF_TOKEN"}] if spec.model.token_secret else []
    assert named == wanted
    if spec.engine.runtime is Runtime.HEADRACE:
        assert not any("secretKeyRef" in str(variable) for variable in pod["containers"][0]["env"])


@given(spec_documents())
def test_every_child_is_owned_by_the_service_and_carries_its_label(document):
    spec, made = rendered(document)
    for manifest in made.values():
        [owner] = manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (spec.uid, True)
        assert manifest["metadata"]["labels"]["headrace.dev/inferenceservice"] == spec.name
        assert manifest["metadata"]["namespace"] == spec.namespace

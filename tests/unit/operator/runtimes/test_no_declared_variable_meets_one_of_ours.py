"""A variable that stands in a container twice is refused by the API server: what we set, nobody declares."""

import pytest
from operator_builders import SETTINGS, resource, service

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Invalid
from headrace_operator.render.pod_template import pod_template

RUNTIMES = {"headrace": {}, "vllm": {"engine": {"runtime": "vllm", "image": "vllm:1"}}}
MODELS = {
    "downloaded": {"model": {"uri": "hf://org/name", "secretRef": {"name": "hub"}}},
    "mounted": {"model": {"uri": "pvc://models/tiny"}},
}


def ours(spec):
    pod = pod_template(service(spec), image=SETTINGS.engine_image, admin_keys="{}")["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", ())]
    return sorted({item["name"] for container in containers for item in container["env"]})


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("model", MODELS)
def test_each_of_ours_is_refused(runtime, model):
    named = ours(RUNTIMES[runtime] | MODELS[model])
    assert named
    for name in named:
        declared = {"engine": {"env": [{"name": name, "value": "theirs"}]}}
        assert isinstance(parse(resource(declared)), Invalid), name


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "HUGGING_FACE_HUB_TOKEN", "LD_PRELOAD"])
def test_nor_does_a_spec_hold_tokens_or_take_what_the_pod_was_not_given(name):
    declared = {"engine": {"env": [{"name": name, "value": "all"}]}}
    assert isinstance(parse(resource(declared)), Invalid)

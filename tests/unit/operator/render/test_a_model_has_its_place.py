"""Where a pod finds its model: on a claim, in the image, or downloaded into a cache beforehand."""

import json

from operator_builders import SETTINGS, service

from headrace_operator.api.spec import Limits
from headrace_operator.render.children import children
from headrace_operator.render.config_map import tenancy

COMMIT = 40 * "a"


def pod(*changes):
    spec = service(*changes)
    made = children(spec, replicas=1, limits=Limits(8, 512), image=SETTINGS.engine_image, admin_keys="{}")
    [deployment] = [manifest for manifest in made if manifest["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def volumes(found):
    return {volume["name"]: volume for volume in found["volumes"]}


def variables(container):
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def hub(**model):
    return {"model": {"uri": "hf://org/name", **model}}


def test_a_claim_is_mounted_read_only_and_the_engine_is_told_the_directory():
    found = pod({"model": {"uri": "pvc://models/some/dir"}})
    assert volumes(found)["models"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert found["containers"][0]["args"][:2] == ["serve", "/models/some/dir"]
    assert "initContainers" not in found


def test_a_model_in_the_image_needs_no_volume():
    found = pod({"model": {"uri": "file:///opt/model"}})
    assert found["containers"][0]["args"][:2] == ["serve", "/opt/model"]
    assert set(volumes(found)) == {"config", "tmp"}


def test_a_model_of_a_hub_is_fetched_before_the_engine_starts_and_served_without_asking_again():
    found = pod(hub(revision=COMMIT))
    [fetch], [engine] = found["initContainers"], found["containers"]
    assert fetch["args"][:3] == ["models", "add", f"hf://org/name@{COMMIT}"]
    assert engine["args"][:2] == ["serve", f"hf://org/name@{COMMIT}"]
    assert variables(engine)["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in variables(fetch)
    for container in (fetch, engine):
        assert variables(container)["HEADRACE_MODELS"].startswith("/cache/")
        [cache] = [mount for mount in container["volumeMounts"] if mount["name"] == "cache"]
        assert not cache.get("readOnly"), "and the root stays read-only"


def test_each_pod_has_a_bounded_cache_of_its_own_where_no_claim_is_named():
    assert volumes(pod(hub()))["cache"]["emptyDir"] == {"sizeLimit": "64Gi"}
    assert volumes(pod(hub(cache={"size": "3Gi"})))["cache"]["emptyDir"] == {"sizeLimit": "3Gi"}


def test_a_claim_for_the_cache_is_written_by_the_pod_s_user():
    found = pod(hub(cache={"claimName": "shared"}))
    assert volumes(found)["cache"]["persistentVolumeClaim"] == {"claimName": "shared"}
    assert found["securityContext"]["fsGroup"] == found["securityContext"]["runAsUser"]


def test_only_the_download_sees_the_token():
    found = pod(hub(secretRef={"name": "hub"}))
    [fetch], [engine] = found["initContainers"], found["containers"]
    assert variables(fetch)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}
    assert "HF_TOKEN" not in variables(engine)


def test_the_download_needs_no_gpu():
    found = pod({**hub(), "engine": {"gpu": {"count": 1}, "resources": {"limits": {"memory": "8Gi"}}}})
    assert found["initContainers"][0]["resources"]["limits"] == {"memory": "8Gi"}
    assert found["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_a_kind_of_gpu_is_a_label_of_the_node():
    found = pod({"engine": {"gpu": {"count": 1, "class": "NVIDIA-L4"}}})
    assert found["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_labels_are_added_and_replace_none_that_pods_are_counted_by():
    spec = service({"engine": {"template": {"labels": {"team": "a"}}, "imagePullSecrets": ["registry"]}})
    made = children(spec, replicas=1, limits=Limits(8, 512), image="i", admin_keys="{}")
    [deployment] = [manifest for manifest in made if manifest["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_tenants_reach_engines_by_the_file_that_they_read_again_when_it_changes():
    terms = {
        "keys": {64 * "a": "acme"},
        "items": [{"name": "acme", "weight": 3, "limits": {"maxNumSeqs": 8}}],
    }
    document = tenancy(service({"tenants": terms}).tenants, 2)
    assert document["keys"] == {64 * "a": "acme"}
    # What nobody sets is not in it: an engine of an older version takes it too.
    assert document["tenants"] == {"default": {}, "items": {"acme": {"weight": 3, "max_num_seqs": 8}}}


def test_without_tenants_nobody_needs_a_key():
    made = children(service(), replicas=1, limits=Limits(8, 512), image="i", admin_keys="{}")
    [config] = [manifest for manifest in made if manifest["kind"] == "ConfigMap"]
    assert json.loads(config["data"]["api-keys.json"])["keys"] is None

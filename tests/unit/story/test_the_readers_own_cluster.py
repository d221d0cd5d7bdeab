"""What `local/demo --context` does to a cluster that is not its own."""

import yaml

from headrace_local.story.context_venue import ContextVenue
from headrace_local.story.stage import EXAMPLE


def venue(**changes):
    images = {"operator_image": "registry.example/op:1", "engine_image": "registry.example/engine:1"}
    return ContextVenue(context="prod-eu", **{**images, **changes})


def test_every_command_names_the_context_and_leaves_the_current_one_alone():
    tools = venue().tools
    assert tools.kubectl_command == ("kubectl", "--context", "prod-eu")
    assert tools.helm_command == ("helm", "--kube-context", "prod-eu")


def test_images_go_into_the_chart_by_tag_or_digest():
    def values(image):
        given = venue(operator_image=image).chart_values()
        return dict(pair.split("=", 1) for pair in given if pair != "--set-string")

    plain = values("registry.example:5000/op:1.2")
    assert (plain["image.repository"], plain["image.tag"]) == ("registry.example:5000/op", "1.2")
    untagged = values("registry.example:5000/op")
    assert (untagged["image.repository"], untagged["image.tag"]) == ("registry.example:5000/op", "latest")
    pinned = values("registry.example/op@sha256:ab")
    assert (pinned["image.repository"], pinned["image.digest"]) == ("registry.example/op", "sha256:ab")
    assert pinned["engine.image"] == "registry.example/engine:1"


def test_the_example_is_freed_of_what_only_the_local_cluster_has():
    engine = venue().manifest["spec"]["engine"]
    assert engine["image"] == "registry.example/engine:1"
    assert "runtimeClassName" not in engine
    local = yaml.safe_load(EXAMPLE.read_text())["spec"]["engine"]
    assert {key: value for key, value in local.items() if key not in {"image", "runtimeClassName"}} == {
        key: value for key, value in engine.items() if key != "image"
    }


def test_the_readers_own_manifest_is_left_as_it_is(tmp_path):
    own = {"metadata": {"name": "mine"}, "spec": {"engine": {"image": "a:1", "runtimeClassName": "gvisor"}}}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(own))
    assert venue(file=file).manifest == own

"""The Prometheus job in docs/operator.md, held against the pods that the operator makes.

What Prometheus does with it is worked out here by its documented rules: `role: pod` gives one target for each
container port, and a label's name with every other character than letters, digits and `_` made `_`.
"""

import re
from pathlib import Path

import pytest
import yaml
from operator_builders import SETTINGS, service

from headrace_operator.api.names import SERVICE_LABEL
from headrace_operator.render.pod_template import pod_template

DOCS = Path(__file__).parents[3] / "docs" / "operator.md"
META = "__meta_kubernetes_"


@pytest.fixture(scope="module")
def job():
    text = DOCS.read_text().partition("### Scraping without PodMonitor")[2]
    config = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    [found] = config["scrape_configs"]
    return found


def discovered(template):
    """The targets of one pod, as Prometheus knows them before relabeling."""
    labels = {
        f"{META}pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}": value
        for name, value in template["metadata"]["labels"].items()
    }
    place = {f"{META}namespace": "default", f"{META}pod_name": "chat-engine-5d9c-0"}
    for container in template["spec"]["containers"]:
        for port in container["ports"]:
            yield {**labels, **place, f"{META}pod_container_port_name": port["name"]}


def relabeled(target, rules):
    """The labels that are left, or None where the target is dropped."""
    made = {}
    for rule in rules:
        value = ";".join(target.get(name, "") for name in rule["source_labels"])
        if rule.get("action") == "keep" and not re.fullmatch(rule["regex"], value):
            return None
        if "target_label" in rule:
            made[rule["target_label"]] = value
    return made


def test_each_engine_is_one_target_that_says_whose_it_is(job):
    template = pod_template(service(), image=SETTINGS.engine_image, admin_keys=SETTINGS.admin_keys)
    targets = [relabeled(target, job["relabel_configs"]) for target in discovered(template)]
    assert len(targets) == 2, "the admin port is a port too"
    assert [target for target in targets if target is not None] == [
        {"namespace": "default", "pod": "chat-engine-5d9c-0", "inferenceservice": "chat"}
    ]


def test_no_other_pod_is_asked_for(job):
    [discovery] = job["kubernetes_sd_configs"]
    assert discovery == {"role": "pod", "selectors": [{"role": "pod", "label": SERVICE_LABEL}]}

"""The pieces of the local cluster that need no root: addresses, archives, kubeconfigs, records, refusals."""

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from headrace_local import lifecycle, missing
from headrace_local.binaries import SOURCES, sources_digest
from headrace_local.cache import cache_directory, exclusively
from headrace_local.certificates import create_authority
from headrace_local.dev_runtime import HOME, SOURCE_ROOTS, Environment, dev_runtime_spec, engine_image
from headrace_local.kubeconfig import kubeconfig, merge_context
from headrace_local.missing import Missing
from headrace_local.network import MAX_CLUSTERS, Addresses, free_addresses
from headrace_local.oci import Image, Layer, add_layer, write_archive
from headrace_local.processes import Daemons, Process
from headrace_local.progress import Phases, duration
from headrace_local.state import state_of


def networks(addresses: Addresses) -> list[IPv4Network]:
    return [addresses.link, addresses.pods, addresses.services]


def test_no_two_clusters_share_an_address():
    every = [network for index in range(MAX_CLUSTERS) for network in networks(Addresses(index))]
    assert not any(one.overlaps(other) for one, other in combinations(every, 2))
    assert all(network.subnet_of(IPv4Network("198.18.0.0/15")) for network in every)


def test_a_new_cluster_avoids_what_is_routed_and_what_is_taken():
    vpn = IPv4Network("198.18.0.0/21")  # indexes 0 and 1
    assert free_addresses([vpn], taken={2}) == Addresses(3)
    with pytest.raises(Missing, match=r"198\.18"):
        free_addresses([IPv4Network("198.18.0.0/15")], taken=set())


@pytest.mark.skipif(os.geteuid() != 0, reason="clusters are root's")
def test_clusters_of_two_caches_are_made_one_after_the_other(monkeypatch, tmp_path):
    """Each finds a network that is free, and lays its own before the other looks."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "another"))
    ended = threading.Thread(target=lifecycle.down, args=("none",))
    with exclusively(lifecycle.MACHINE_LOCK):
        ended.start()
        ended.join(0.05)
        assert ended.is_alive()
    ended.join(10)
    assert not ended.is_alive()


def test_a_layer_on_top_keeps_the_image_below_it(tmp_path):
    below = Image("below:1", Layer(files={"/a": (b"a", 0o644)}), ("/a",), {"A": "1"}, "65532")
    archive = write_archive(below, "x86_64", tmp_path / "below.tar")
    above = Layer(files={"/b": (b"b", 0o755)})
    with tarfile.open(add_layer(archive, above, "above:1", tmp_path / "above.tar")) as image:

        def document(name):
            return json.load(image.extractfile(name))

        def blob(descriptor):
            return f"blobs/{descriptor['digest'].replace(':', '/')}"

        [described] = document("index.json")["manifests"]
        assert described["annotations"]["io.containerd.image.name"] == "above:1"
        manifest = document(blob(described))
        config = document(blob(manifest["config"]))
        assert config["config"]["Entrypoint"] == ["/a"]
        assert [layer["digest"] for layer in manifest["layers"]] == config["rootfs"]["diff_ids"]
        for descriptor, name in zip(manifest["layers"], ("a", "b"), strict=True):
            with tarfile.open(fileobj=image.extractfile(blob(descriptor))) as layer:
                assert layer.getnames() == [name]


def test_an_image_archive_is_the_same_to_the_byte_for_the_same_content(tmp_path):
    image = Image(
        "example.local/a:1", Layer({"/etc": 0o755}, {"/etc/x": (b"x", 0o644)}, {"/bin": "usr/bin"}), ["/x"]
    )
    first = write_archive(image, "x86_64", tmp_path / "1.tar").read_bytes()
    assert first == write_archive(image, "x86_64", tmp_path / "2.tar").read_bytes()


def test_an_image_archive_leads_from_its_index_to_its_files(tmp_path):
    image = Image("example.local/a:1", Layer(files={"/x": (b"content", 0o755)}), ["/x"], {"A": "b"}, "1:1")
    with tarfile.open(write_archive(image, "x86_64", tmp_path / "a.tar")) as archive:
        read = lambda name: archive.extractfile(name).read()  # noqa: E731
        blob = lambda descriptor: read(f"blobs/sha256/{descriptor['digest'][7:]}")  # noqa: E731
        index = json.loads(read("index.json"))["manifests"][0]
        manifest = json.loads(blob(index))
        config = json.loads(blob(manifest["config"]))
        with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
            content = layer.extractfile("x").read()
    assert index["annotations"]["io.containerd.image.name"] == "example.local/a:1"
    assert (config["architecture"], config["config"]["User"]) == ("amd64", "1:1")
    assert content == b"content"


def test_a_merged_context_leaves_the_user_s_own_kubeconfig_as_it_was(tmp_path):
    pair = create_authority(tmp_path, "ca").issue("admin", "admin")
    config = kubeconfig("headrace-local", "https://198.18.0.2:6443", tmp_path / "ca.crt", pair)
    mine = {
        "current-context": "work",
        "clusters": [{"name": "work", "cluster": {"server": "https://work"}}],
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        "users": [
            {"name": "me", "user": {"token": "t"}},
            {"name": "headrace-local", "user": {"token": "old"}},
        ],
    }
    target = tmp_path / "config"
    target.write_text(yaml.safe_dump(mine))
    merge_context(target, config)
    merge_context(target, config)

    merged = yaml.safe_load(target.read_text())
    assert merged["current-context"] == "work"
    assert [context["name"] for context in merged["contexts"]] == ["work", "headrace-local"]
    assert merged["users"][0] == mine["users"][0]
    assert "token" not in merged["users"][1]["user"]
    assert target.stat().st_mode & 0o777 == 0o600


def test_keys_are_readable_by_their_owner_alone(tmp_path):
    pair = create_authority(tmp_path, "ca").issue("admin", "admin")
    assert pair.key.stat().st_mode & 0o077 == 0


def test_a_daemon_is_known_by_pid_and_start_time(tmp_path):
    (tmp_path / "records").mkdir()
    daemons = Daemons(tmp_path / "records", tmp_path, cgroup_procs=Path("/dev/null"))
    started = daemons.start("sleeper", ["sleep", "60"])
    try:
        assert started.alive
        assert started.age_s < 10
        assert daemons.all() == [started]
        assert not Process("reused", started.pid, started.start_ticks - 1).alive
    finally:
        started.kill()


def test_the_build_is_known_by_its_sources_and_its_compiler(tmp_path):
    (tmp_path / "main.go").write_text("package main")
    before = sources_digest(tmp_path, "go1.24.0")
    assert before == sources_digest(tmp_path, "go1.24.0")
    assert before != sources_digest(tmp_path, "go1.25.0")
    (tmp_path / "main.go").write_text("package main // changed")
    assert before != sources_digest(tmp_path, "go1.24.0")


def test_the_go_sources_name_no_place_to_download_from():
    for file in SOURCES.rglob("go.*"):
        assert "://" not in file.read_text().replace("// ", ""), file


def test_the_development_runtime_adds_read_only_mounts_and_nothing_else(tmp_path):
    default = {
        "process": {"rlimits": [], "cwd": "/"},
        "mounts": [{"destination": "/proc"}],
        "linux": {"x": 1},
    }
    spec = dev_runtime_spec(default, Environment.current())
    assert default["process"] == {"rlimits": [], "cwd": "/"}
    assert (spec["process"], spec["linux"]) == ({"cwd": "/"}, {"x": 1})
    added = spec["mounts"][1:]
    seen = {mount["destination"]: mount["source"] for mount in added}
    assert seen["/usr"] == "/usr"
    assert seen[str(HOME / "venv")] == sys.prefix
    assert seen[str(HOME / "engine")].endswith("/engine")
    assert all({"ro", "nosuid", "nodev"} <= set(mount["options"]) for mount in added)


def test_the_development_image_starts_the_environment_s_command():
    image = engine_image(Environment.current())
    assert image.entrypoint == ("headrace",)
    command, mode = image.layer.files[f"{HOME}/bin/headrace"]
    assert command.startswith(f"#!{HOME}/venv/bin/python\n".encode())
    assert mode == 0o755
    assert image.environment["PATH"].startswith(f"{HOME}/bin:{HOME}/venv/bin:")
    assert image.user == "65532:65532"


def test_a_checkout_below_tmp_is_seen_by_pods_that_have_a_tmp_of_their_own(tmp_path):
    environment = Environment(prefix=tmp_path / ".venv", interpreter=Path("/usr"), checkout=tmp_path)
    (environment.prefix / "bin").mkdir(parents=True)
    (environment.prefix / "pyvenv.cfg").touch()
    (environment.prefix / "bin" / "python").symlink_to("/usr/bin/python3")
    assert not any(path.is_relative_to("/tmp") for path in environment.mounts())


def test_what_pods_could_not_read_is_said_before_anything_starts(tmp_path):
    hidden = tmp_path / "venv"
    (hidden / "bin").mkdir(parents=True)
    hidden.chmod(0o700)
    for root in SOURCE_ROOTS:
        (tmp_path / root).mkdir()
    environment = Environment(prefix=hidden, interpreter=Path("/usr"), checkout=tmp_path)
    with pytest.raises(Missing, match="chmod"):
        environment.require_readable()


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [("sys.platform", "darwin", "needs Linux"), ("os.geteuid", lambda: 1000, "needs root")],
)
def test_what_the_machine_lacks_is_one_sentence(monkeypatch, attribute, value, sentence):
    monkeypatch.setattr(f"headrace_local.missing.{attribute}", value)
    with pytest.raises(Missing, match=sentence) as told:
        missing.require(node=True)
    assert str(told.value).count(".") == 1


def test_missing_go_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr("headrace_local.missing.shutil.which", lambda _: None)
    with pytest.raises(Missing, match=r"Go 1\.24 or newer"):
        missing.go_command()


def test_missing_packages_are_named_as_debian_names_them(monkeypatch):
    monkeypatch.setattr("headrace_local.missing.shutil.which", lambda _: None)
    monkeypatch.setattr("headrace_local.missing.CNI_DIRECTORIES", ())
    assert "containernetworking-plugins" in missing.missing_packages()
    assert "containerd" not in missing.missing_packages(node=False)


@pytest.mark.parametrize("name", ["", "Upper", "a" * 31, "-a", "a-", "a/b", ".."])
def test_a_name_that_could_leave_the_cache_is_refused(name):
    with pytest.raises(ValueError, match="no name for a cluster"):
        state_of(name)


def test_clusters_of_one_name_in_two_caches_have_names_of_their_own_in_the_kernel(monkeypatch, tmp_path):
    tags = set()
    for cache in ("one", "two"):
        monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / cache))
        assert cache_directory() == tmp_path / cache
        tags.add((state_of("headrace").tag, state_of("headrace").link))
    assert len(tags) == 2
    assert all(len(link) <= 15 for _, link in tags)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (80, "1 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_read_as_people_say_them(seconds, said):
    assert duration(seconds) == said


def test_a_phase_tells_what_it_took_and_whether_it_failed():
    console = Console(file=io.StringIO(), width=80)
    phases = Phases(console)
    with phases.phase("digging"):
        pass
    with pytest.raises(RuntimeError), phases.phase("filling"):
        raise RuntimeError
    told = console.file.getvalue()
    assert "✓ digging  0.0 s" in told
    assert "✗ filling  0.0 s" in told


def test_the_command_refuses_in_one_sentence_without_a_traceback():
    script = "import typer; from headrace_local.cli import register; r = typer.Typer(); register(r); r()"
    asked = [sys.executable, "-c", script, "local", "status", "--name", "No"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("headrace local: 'No' is no name for a cluster")
    assert len(done.stderr.splitlines()) == 1

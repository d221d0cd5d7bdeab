"""The names that Headrace gives and reads in a cluster: group, children, labels, annotations, ports.

Everything that selects, owns or finds an object goes through here, so that no name is spelled twice.
"""

GROUP = "headrace.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"

CHILD_FIELD_MANAGER = "headrace"
STATUS_FIELD_MANAGER = "headrace-status"

CONTAINER = "engine"
FETCH_CONTAINER = "fetch"
"""Downloads the model before the engine starts."""
TERMINATION_LOG = "/dev/termination-log"
"""What a container writes there as it ends stands in its pod's status."""
GPU_CLASS_LABEL = "nvidia.com/gpu.product"
HTTP_PORT = 8000
ADMIN_PORT = 8001

SERVICE_LABEL = f"{GROUP}/inferenceservice"
RENDERED_HASH_ANNOTATION = f"{GROUP}/rendered-hash"
"""On every child: the digest of what was rendered. Same digest, other fields: somebody else edited it."""
DRAINING_ANNOTATION = f"{GROUP}/draining"
"""On a pod that is being emptied before it is removed: the RFC 3339 time at which that began."""
ADMIN_KEYS_HASH_ANNOTATION = f"{GROUP}/admin-keys-hash"
"""On the pod template: engines read the public keys when they start, so other keys need other pods."""
TEMPLATE_HASH_ANNOTATION = f"{GROUP}/template-hash"
"""On the pod template and its pods: the digest of the rest of the template, to tell whose a pod is."""
APPROVE_ANNOTATION = f"{GROUP}/approve"
"""On an InferenceService: the id of the recommendation that a person approves, or `next`."""
PAUSED_ANNOTATION = f"{GROUP}/paused"
"""On an InferenceService: anything but `false` is `spec.paused`."""
LEFT_ALONE = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations by which node autoscalers spare a pod."""
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000", "prometheus.io/path": "/metrics"}
"""Annotations by which a Prometheus without its operator finds a pod."""
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
DRAINED_DELETION_COST = "-1000"

CONFIG_MOUNT_PATH = "/etc/headrace"
MODELS_MOUNT_PATH = "/models"
CACHE_MOUNT_PATH = "/cache"
"""Where downloaded models are kept: the one large writable place of a pod."""
LIMITS_KEY = "limits.json"
ADMIN_KEYS_KEY = "admin-keys.json"
API_KEYS_KEY = "api-keys.json"
SLO_TTFT_KEY = "slo-ttft-ms"
SLO_ITL_KEY = "slo-itl-ms"

MAX_NAME_LENGTH = 45
"""Of an InferenceService: Deployment pods add `-engine-<hash>-<suffix>` and a label value ends at 63."""


def engine_name(service: str) -> str:
    """Every child of a service but its Service."""
    return f"{service}-engine"


def selector_labels(service: str) -> dict[str, str]:
    """Immutable on the Deployment, therefore as few as tell one service from another."""
    return {SERVICE_LABEL: service}


def labels(service: str) -> dict[str, str]:
    """On every child of a service, its pods included."""
    return {
        "app.kubernetes.io/name": "headrace-engine",
        "app.kubernetes.io/instance": service,
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/part-of": "headrace",
        "app.kubernetes.io/managed-by": "headrace",
        **selector_labels(service),
    }


def selector_text(service: str) -> str:
    """The selector as `/scale` and `kubectl get pods -l` take it."""
    return ",".join(f"{key}={value}" for key, value in selector_labels(service).items())


def service_url(service: str, namespace: str) -> str:
    """Where a client inside the cluster finds the OpenAI routes."""
    return f"http://{service}.{namespace}.svc:{HTTP_PORT}/v1"

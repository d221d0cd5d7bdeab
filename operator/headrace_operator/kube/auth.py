"""Where the API server is and how to prove who we are: in a pod, or by a kubeconfig.

Both end in the official client's `Configuration`. In a pod its token is re-read from disk each minute,
because kubelet replaces it there; `Credentials` is the same as plain data, for the watches.
"""

from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config


class CredentialsError(Exception):
    """There is no usable way to reach an API server; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Credentials:
    server: str
    ca_path: str | None
    certificate_path: str | None
    private_key_path: str | None
    token: str | None
    insecure: bool


async def load_configuration(kubeconfig: Path | None) -> Configuration:
    """Credentials as of now. Raises `CredentialsError`."""
    configuration = Configuration()
    configuration.client_session_kwargs = {"trust_env": False}
    try:
        if kubeconfig is None:
            load_incluster_config(configuration)
        else:
            await load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
    except ConfigException as error:
        place = f"the kubeconfig {kubeconfig}" if kubeconfig else "this pod's service account"
        raise CredentialsError(
            f"cannot read credentials from {place}: {error}; "
            "run inside a pod with a service account, or pass --kubeconfig FILE"
        ) from error
    return configuration


async def credentials_of(configuration: Configuration) -> Credentials:
    authorization = await configuration.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = authorization.partition(" ")
    return Credentials(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        token=token if scheme.lower() == "bearer" and token else None,
        insecure=not configuration.verify_ssl,
    )

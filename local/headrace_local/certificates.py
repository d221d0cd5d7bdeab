"""The cluster's certificates: one authority, one certificate a component.

Keys are elliptic because those are made in no time; a cluster is gone long before its certificates end.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = dt.timedelta(days=365)
CLOCK_SKEW = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of one cluster and writes them below `directory`."""

    directory: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    certificate_file: Path
    key_file: Path

    def issue(
        self, name: str, common_name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> KeyPair:
        """A certificate for client use, and for server use where `hosts` (names or addresses) are given."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = _builder(_subject(common_name, groups), self.certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return _write(self.directory, name, certificate, key)


def create_authority(directory: Path, name: str) -> Authority:
    """A new authority; its files are `NAME.crt` and `NAME.key`."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"headrace-local-{name}", ())
    certificate = (
        _builder(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_signing_usage(), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = _write(directory, name, certificate, key)
    return Authority(directory, certificate, key, files.certificate, files.key)


def create_signing_key(directory: Path, name: str) -> tuple[Path, Path]:
    """A bare key pair (private, public), such as the one that service-account tokens are signed with."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = directory / f"{name}.key", directory / f"{name}.pub"
    _write_secret(private, _private_pem(key))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return private, public


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _signing_usage() -> x509.KeyUsage:
    signs = dict.fromkeys(("digital_signature", "key_cert_sign", "crl_sign"), True)
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(**signs, **dict.fromkeys((*others, "encipher_only", "decipher_only"), False))


def _subject(common_name: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    pair = KeyPair(directory / f"{name}.crt", directory / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_secret(pair.key, _private_pem(key))
    return pair


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_secret(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.write_bytes(content)

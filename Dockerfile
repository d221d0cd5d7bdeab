# Two images from one checkout:
#   docker build --target operator -t headrace-operator .     (no torch)
#   docker build --target engine   -t headrace-engine .
# BASE is a Debian with Python 3.11 and its venv module; nothing else is pulled.
# Without a network: put the wheels of requirements/build.txt and of the target's lock into ./wheelhouse, and build with
#   --build-arg PIP_NO_INDEX=1
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS tools
ARG PIP_NO_INDEX=
ENV PIP_NO_INDEX=${PIP_NO_INDEX} PIP_FIND_LINKS=/build/wheelhouse PIP_ONLY_BINARY=:all: \
    PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# The pattern lets a checkout without a wheelhouse build; its companion only keeps COPY from having nothing to do.
COPY LICENSE wheelhouse* wheelhouse/
COPY requirements requirements
# The environment has no pip: pip stands outside it.
RUN python3 -m venv pip \
    && python3 -m venv --without-pip /opt/headrace

# Headrace itself, in an environment of its own: the last and smallest layer of both images.
FROM tools AS headrace
RUN pip/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY operator operator
RUN pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && pip/bin/pip --python /opt/headrace/bin/python install --no-deps --no-index dist/*.whl

# What it needs, by its locks: a layer that changes with them alone.
FROM tools AS operator-environment
RUN pip/bin/pip --python /opt/headrace/bin/python install --require-hashes -r requirements/operator.txt

FROM tools AS engine-environment
RUN pip/bin/pip --python /opt/headrace/bin/python install --require-hashes -r requirements/engine.txt

FROM ${BASE} AS runtime
# PYTHONSAFEPATH: neither the working directory nor the script's own is searched for modules.
ENV PATH=/opt/headrace/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp \
    PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["headrace"]

FROM runtime AS engine
# CPU kernels are compiled for the processor that they run on.
USER root
RUN command -v gcc \
    || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; }
USER 65532:65532
COPY --from=engine-environment /opt/headrace /opt/headrace
COPY --from=headrace /opt/headrace /opt/headrace
EXPOSE 8000 8001
CMD ["serve", "--help"]

FROM runtime AS operator-dependencies
COPY --from=operator-environment /opt/headrace /opt/headrace
EXPOSE 8080
CMD ["operator", "run"]

FROM operator-dependencies AS operator
COPY --from=headrace /opt/headrace /opt/headrace

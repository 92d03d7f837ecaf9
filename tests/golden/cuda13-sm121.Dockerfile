# docker buildx build --platform linux/arm64 --network none --provenance=false --sbom=false --build-arg SOURCE_DATE_EPOCH=1790000000 --output type=image,oci-mediatypes=true,compression=zstd,force-compression=true,name=nightlock/cuda13-sm121:local .
#
# A small CUDA image, for golden files
# Rendered by nightlock from lock/cuda13-sm121/, lock digest sha256:0bf44ffff3b48036be553fb792b99b58b59be256483508b7e7edc11e52f5dabe.
# This folder is the whole context: nothing is fetched while building, so the command above gives
# the same layers on every machine. `nightlock build` adds two labels to it: the digest of
# the base and the build id.

# ---- base: the root file system -----------------------------------------------------------------
# Debian trixie from 1 locked packages, sha256:55beb7e9a987e20ddca2a2326732fdbea958ed26f1ccf90f7bb7a9825fa8d4dc
# ADD unpacks the tar as one layer; `docker import` would give a new image id each time.
FROM scratch AS base
ADD base.tar /

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

# ---- wheels: one stage and one layer per group of the lock's layer plan -------------------------
# No stage knows another, so a changed wheel rebuilds its own layer only. Wheels are bind-mounted
# and never enter a layer; every one is checked against the hash in its requirements file.
# tree.py compiles the modules, checked by the hash of their source: a boot of vLLM is three
# processes that import the same 7,000 modules, and none of them could keep what it compiled.

# flashinfer-python 0.7.2.post1, 62.1 MB
FROM tools AS group-flashinfer-python
RUN --network=none --mount=type=bind,source=wheels/group-flashinfer-python,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# 2 wheels, 39.6 MB: nvidia-cuda-nvcc … nvidia-cuda-runtime
FROM tools AS group-nvidia-cuda-nvcc-etc
RUN --network=none --mount=type=bind,source=wheels/group-nvidia-cuda-nvcc-etc,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# vllm 0.33.0, 336.4 MB
FROM tools AS group-vllm
RUN --network=none --mount=type=bind,source=wheels/group-vllm,target=/wheels \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    uv pip install --prefix /out/opt/venv --no-deps --no-index --require-hashes \
        --find-links /wheels --requirement /wheels/requirements.txt \
 && python3 -I /tree.py /out /opt/venv/bin/python

# ---- library: byte code of the interpreter's own modules ----------------------------------------
# Debian compiles them when a package is installed; the base leaves that out, since the result
# depends on the machine it is made on.
FROM tools AS library
RUN --network=none --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    mkdir -p /out/usr/lib && cp -a /usr/lib/python3.13 /out/usr/lib/ \
 && python3 -I /tree.py /out /opt/venv/bin/python /usr/lib/python3.13

# ---- toolkit: /usr/local/cuda, links into the wheels --------------------------------------------
# nvcc, headers and libraries lie below nvidia/cu13 in the site directory. What compiles at run
# time (FlashInfer, Triton, TileLang, vLLM's own) wants lib64, libcudart.so and a libcuda.so to link
# against, which no wheel holds. The last one is a stub that answers each call with an error, off the
# loader's path: the driver's own library comes with the container runtime, and no compat library
# is here to shadow it.
FROM tools AS toolkit
RUN --network=none --mount=type=bind,source=wheels,target=/wheels \
    --mount=type=bind,source=runtime/toolkit.py,target=/toolkit.py \
    --mount=type=bind,source=runtime/tree.py,target=/tree.py \
    python3 -I /toolkit.py /out/usr/local/cuda \
        /opt/venv/lib/python3.13/site-packages/nvidia/cu13 /wheels \
 && python3 -I /tree.py /out /opt/venv/bin/python

# ---- metadata: our own files, in the one layer that changes with every lock ---------------------
FROM tools AS metadata
# The lock, whole: `nightlock diff` reads it back from an image that nobody has the sources of.
COPY lock/ /out/opt/nightlock/lock/
# What starts the server, what asks it how it is, and in .json what the two know of this image.
COPY runtime/entrypoint.py runtime/healthcheck.py runtime/image.json runtime/kernels.json /out/opt/nightlock/
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
COPY --link --from=toolkit /out/ /
COPY --link --from=group-flashinfer-python /out/ /
COPY --link --from=group-nvidia-cuda-nvcc-etc /out/ /
COPY --link --from=group-vllm /out/ /
COPY --link --from=metadata /out/ /

# Triton links its launchers against the stub; else it asks the loader's cache, which a container
# has only where its runtime makes one. The NVIDIA_* are for its container toolkit: all GPUs, compute
# and nvidia-smi, and no start on a driver too old for CUDA 13.0 (NVIDIA_DISABLE_REQUIRE=1 overrules).
# What belongs to a host, as NCCL's settings, is given when a container is started.
ENV CUDA_HOME="/usr/local/cuda" \
    TRITON_LIBCUDA_PATH="/usr/local/cuda/lib64/stubs" \
    NVIDIA_VISIBLE_DEVICES="all" \
    NVIDIA_DRIVER_CAPABILITIES="compute,utility" \
    NVIDIA_REQUIRE_CUDA="cuda>=13.0"
# HOME, USER and LOGNAME are asked before the user database, which lacks most UIDs. What is compiled
# goes below a folder named after the lock: a volume that outlives the image never hands its code to
# the next one. Models and settings are shared.
ENV PATH="/opt/venv/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    LANG="C.UTF-8" \
    HOME="/cache" \
    USER="vllm" \
    LOGNAME="vllm" \
    XDG_CACHE_HOME="/cache" \
    XDG_CONFIG_HOME="/cache/config" \
    HF_HOME="/cache/huggingface" \
    VLLM_CONFIG_ROOT="/cache/config/vllm" \
    VLLM_CACHE_ROOT="/cache/0bf44ffff3b4/vllm" \
    TORCHINDUCTOR_CACHE_DIR="/cache/0bf44ffff3b4/torchinductor" \
    TRITON_CACHE_DIR="/cache/0bf44ffff3b4/triton" \
    NUMBA_CACHE_DIR="/cache/0bf44ffff3b4/numba" \
    CUDA_CACHE_PATH="/cache/0bf44ffff3b4/cuda" \
    FLASHINFER_WORKSPACE_BASE="/cache/0bf44ffff3b4" \
    CUTE_DSL_CACHE_DIR="/cache/0bf44ffff3b4/cute-dsl" \
    TVM_FFI_CACHE_DIR="/cache/0bf44ffff3b4/tvm-ffi" \
    TORCH_EXTENSIONS_DIR="/cache/0bf44ffff3b4/torch-extensions" \
    TILELANG_CACHE_DIR="/cache/0bf44ffff3b4/tilelang" \
    HUMMING_CACHE_DIR="/cache/0bf44ffff3b4/humming" \
    QUACK_CACHE_DIR="/cache/0bf44ffff3b4/quack" \
    B12X_COMPILE_CACHE_DIR="/cache/0bf44ffff3b4/b12x" \
    FLASHINFER_CUDA_ARCH_LIST="12.1a" \
    VLLM_HAS_FLASHINFER_CUBIN="1"

# What is inside, for whoever asks a registry without pulling.
LABEL org.nightlock.base="trixie" \
      org.nightlock.base.debs="sha256:55beb7e9a987e20ddca2a2326732fdbea958ed26f1ccf90f7bb7a9825fa8d4dc" \
      org.nightlock.channel="release" \
      org.nightlock.companions="{\"flashinfer-python\":\"0.7.2.post1\"}" \
      org.nightlock.cuda="13.0" \
      org.nightlock.image="cuda13-sm121" \
      org.nightlock.lock.digest="sha256:0bf44ffff3b48036be553fb792b99b58b59be256483508b7e7edc11e52f5dabe" \
      org.nightlock.python="3.13" \
      org.nightlock.spec.digest="sha256:1f62786876e7629ced646feff799b421a5a3469c9f9ea1923d83eff5fe3ecfac" \
      org.nightlock.targets="sm_121" \
      org.nightlock.vllm.commit="bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" \
      org.nightlock.vllm.package="vllm" \
      org.nightlock.vllm.version="0.33.0" \
      org.opencontainers.image.created="2026-09-21T14:13:20Z" \
      org.opencontainers.image.description="A small CUDA image, for golden files" \
      org.opencontainers.image.documentation="https://docs.vllm.ai" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" \
      org.opencontainers.image.source="https://github.com/vllm-project/vllm" \
      org.opencontainers.image.title="vLLM 0.33.0 (cuda13-sm121)" \
      org.opencontainers.image.url="https://github.com/vllm-project/vllm" \
      org.opencontainers.image.version="0.33.0"

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

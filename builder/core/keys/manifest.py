"""Keys met in run files: units, compose files, quadlets, scripts, Dockerfiles."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="systemd-escaping",
        title="systemd changes or drops a value",
        kind="manifest",
        severity="error",
        case="C72",
        cause="% starts a specifier, $ a variable, and backslashes and quotes follow C, not the "
        "shell; a bad line may be dropped with a warning only.",
        action="Write %% and $$ in ExecStart, %% in Environment, and no shell operators.",
        seen="systemd/systemd#1566 systemd/systemd#36248 SEIAROTg/quadlet-nix#42 "
        "vm0-ai/vm0#9499 Glyndor/podup#1047 timothystewart6/k3s-ansible#624 "
        "garethr/garethr-docker#647",
    ),
    Key(
        key="start-timeout",
        title="the unit's limit is shorter than the pull or the load",
        kind="manifest",
        severity="error",
        case="C73",
        cause="90 s by default cover neither a 10 GB pull nor a ten-minute load, and several "
        "limits do not know of each other.",
        action="Pull before the unit starts, and derive all limits from one load time.",
        seen="containers/podman#18353 containers/podman#11618 containers/podman#27290",
    ),
    Key(
        key="health-start-period",
        title="the health check is impatient, or its program is not in the image",
        kind="manifest",
        severity="error",
        case="C74",
        cause="The start period is shorter than the load, or `curl` is assumed and absent.",
        action="Use a start period as long as the load, and the image's own health check.",
        seen="Toloka/tolokaforge#659 Toloka/tolokaforge#661 Osmantic/ODS#1028 Osmantic/ODS#2704 "
        "vllm-project/vllm#40462 formbricks/formbricks#8286 "
        "OriNachum/autonomous-intelligence#25 ollama/ollama#9781 BerriAI/litellm#9295 "
        "BerriAI/litellm#9479",
    ),
    Key(
        key="compose-gpu-syntax",
        title="a compose file asks for GPUs in a way that is not understood",
        kind="manifest",
        severity="error",
        case="C75",
        cause="count and device_ids exclude each other, capabilities are required, and the short "
        "form needs a new compose.",
        action="Write driver, capabilities: [gpu] and one of count or device_ids (strings).",
        seen="docker/docs#12315 infiniflow/ragflow#9573 docker/compose#8142 docker/compose#9190 "
        "compose-spec/compose-spec#558 compose-spec/compose-go#732",
    ),
    Key(
        key="gpus-flag-quoting",
        title="`--gpus device=0,1` is read as two options",
        kind="manifest",
        severity="error",
        case="C76",
        cause="The value is CSV: a list of devices must keep double quotes of its own.",
        action="In a shell write --gpus '\"device=0,1\"'; better, UUIDs.",
        seen="NVIDIA/nvidia-docker#1026 NVIDIA/nvidia-docker#1257",
    ),
    Key(
        key="cdi-vs-gpus",
        title="this host gives GPUs another way than was asked",
        kind="manifest",
        severity="error",
        case="C77",
        cause="The legacy hook, the NVIDIA runtime and CDI do not mix, and a static CDI file may "
        "be older than the driver.",
        action="Use the one form this host has; generate the CDI file again after a driver update.",
        seen="NVIDIA/xr-ai#249 projectbluefin/documentation#93 projectbluefin/dakota#376 "
        "ShaneIsrael/fireshare#689 containers/podman#21156 ultralytics/ultralytics#25040",
    ),
    Key(
        key="daemon-reload-loses-gpu",
        title="`systemctl daemon-reload` takes the GPU from running containers",
        kind="manifest",
        severity="warning",
        case="C78",
        cause="The legacy hook adds devices behind the engine's back; a reload applies the rules "
        "without them.",
        action="Use CDI or name the device nodes; recreate containers after a reload.",
        seen="NVIDIA/nvidia-container-toolkit#48 NVIDIA/nvidia-container-toolkit#251 "
        "NVIDIA/nvidia-container-toolkit#1227 NVIDIA/nvidia-container-toolkit#1744 "
        "NVIDIA/nvidia-docker#1730 Datura-ai/lium-io#1007 NVIDIA/cloud-native-docs#186",
    ),
    Key(
        key="quadlet-gpu-selinux",
        title="a quadlet lacks the GPU, or may not open it",
        kind="manifest",
        severity="error",
        case="C79",
        cause="Docker's flags do not map to quadlet keys one by one; SELinux denies, and rootless "
        "drops groups.",
        action="Add AddDevice, ShmSize, SecurityLabelDisable where SELinux enforces, and "
        "GroupAdd=keep-groups for rootless.",
        seen="containers/ramalama#1593 containers/ramalama#1955 "
        "redhat-et/triton-dev-containers#61 NVIDIA/nvidia-container-toolkit#580 "
        "NVIDIA/nvidia-container-toolkit#210 NVIDIA/nvidia-container-toolkit#268",
    ),
    Key(
        key="compose-interpolation",
        title="compose changes a $ or splits an argument",
        kind="manifest",
        severity="error",
        case="C80",
        cause="Variables are filled in before the YAML is used, and a command in one string is "
        "split by shell rules.",
        action="Write the command as a list, and $$ for a dollar sign.",
        seen="vllm-project/vllm#40874 docker/compose#9719 langchain-ai/langgraph#6594",
    ),
    Key(
        key="vram-settle-and-boot-race",
        title="the service starts before the GPU is ready",
        kind="manifest",
        severity="warning",
        case="C81",
        cause="Memory of the last run is not released, or after a boot the device nodes do not "
        "exist yet.",
        action="Wait, with a limit, for the named GPUs, /dev/nvidia-uvm and free memory.",
        seen="instructlab/instructlab#1986 noonghunna/club-3090#544 ggml-org/llama.cpp#27923 "
        "ollama/ollama#14895",
    ),
    Key(
        key="stop-and-name-conflicts",
        title="the unit stops too hard, or two supervisors fight",
        kind="manifest",
        severity="warning",
        case="C82",
        cause="A left-over container blocks the name, ten seconds are not enough to stop, and the "
        "engine's restart policy works against the unit's.",
        action="Use --rm and --init, no restart policy of the engine, stop limits above vLLM's, "
        "and StartLimitBurst.",
        seen="datarhei/restreamer#626 kserve/kserve#5496 vllm-project/vllm#43208",
    ),
    Key(
        key="secrets-in-argv",
        title="a key or token is readable by every user of the host",
        kind="manifest",
        severity="error",
        case="C83",
        cause="Arguments are public in /proc and in `docker inspect`, and vLLM logs them.",
        action="Use an environment file with mode 0600, or -e NAME without a value.",
        seen="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#66 "
        "MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark#3 sgl-project/sglang#36346 "
        "wandb/wandb#12390 tenstorrent/tt-inference-server#874 vllm-project/vllm#12474",
    ),
    Key(
        key="port-published-to-all",
        title="a published port is reachable past the host's firewall",
        kind="manifest",
        severity="warning",
        cause="The engine writes its own firewall rules: -p 8000:8000 listens everywhere.",
        action="Write 127.0.0.1:8000:8000 unless others must reach it.",
        seen="Dakera-AI/dakera-deploy#271 open-webui/open-webui#3455",
    ),
    Key(
        key="run-file-behind",
        title="a run file's digest is not where its tag points",
        kind="manifest",
        severity="warning",
        cause="The tag has moved since the file was written; the file still runs what it names.",
        action="Look at `nightlock diff`, then move the digest with `nightlock run --update FILE`.",
        seen="noonghunna/qwen36-27b-single-3090#6",
    ),
    Key(
        key="run-file-gone",
        title="the registry no longer has the image a run file names",
        kind="manifest",
        severity="error",
        cause="The manifest was deleted; hosts that have pulled it go on, no other can start.",
        action="Move the digest with `nightlock run --update FILE`, or mirror the image again.",
        seen="vllm-project/recipes#241",
    ),
)
"""In the order of the cases."""

"""A libnvidia-ml that reports what a test writes into a file; loaded by the real nvidia-ml-py."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* NVML API reference; one line a GPU: name|major|minor|total|used|pid|mig|looks
   The memory is free again after it was looked at `looks` times; 0: never. */
typedef struct { char name[96]; int major, minor, mig; unsigned pid; int looks, seen;
                 unsigned long long total, used; } gpu;
static gpu all[16]; static int count; static char driver[80]; static int cuda;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
int nvmlInitWithFlags(unsigned f) {
  FILE *in = fopen(getenv("FAKE_NVML"), "r"); if (!in) return 9;
  count = 0;
  if (fscanf(in, "%79s %d\n", driver, &cuda) != 2) return 999;
  gpu *g = all;
  while (fscanf(in, "%95[^|]|%d|%d|%llu|%llu|%u|%d|%d\n", g->name, &g->major, &g->minor,
                &g->total, &g->used, &g->pid, &g->mig, &g->looks) == 8) {
    g->seen = 0; g++; count++; }
  fclose(in); return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *o, unsigned n) { strncpy(o, driver, n); return 0; }
int nvmlSystemGetCudaDriverVersion(int *o) { *o = cuda; return 0; }
int nvmlDeviceGetCount_v2(unsigned *o) { *o = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, gpu **o) {
  if ((int)i >= count) return 2; *o = all + i; return 0; }
int nvmlDeviceGetName(gpu *g, char *o, unsigned n) { strncpy(o, g->name, n); return 0; }
int nvmlDeviceGetCudaComputeCapability(gpu *g, int *a, int *b) {
  *a = g->major; *b = g->minor; return 0; }
int nvmlDeviceGetMemoryInfo(gpu *g, memory *m) {
  if (g->looks && ++g->seen > g->looks) { g->used = 0; g->pid = 0; }
  m->total = g->total << 20; m->used = g->used << 20; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetMigMode(gpu *g, unsigned *a, unsigned *b) {
  if (g->mig < 0) return 3; *a = *b = g->mig > 0; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(gpu *g, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(gpu *g, unsigned i, gpu **o) {
  if (g->mig != 1 || i != 2) return 6; *o = g; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, unsigned *n, process *p) {
  unsigned have = g->pid ? 1 : 0;
  if (*n < have) { *n = have; return 7; }
  *n = have;
  if (have) { p[0].pid = g->pid; p[0].used = 1; p[0].gi = p[0].ci = 0xffffffff; }
  return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "no driver" : "error"; }
"""


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """One GPU; memory in MiB."""

    name: str = "NVIDIA RTX PRO 6000 Blackwell"
    capability: tuple[int, int] = (12, 0)
    total: int = 97_887
    used: int = 0
    pid: int = 0
    mig: int = 0
    """1: MIG is on, with a slice; 2: on, with none; -1: this GPU has no such thing."""
    looks: int = 0
    """How often its memory is looked at before it is free again; 0: it never is."""

    def line(self) -> str:
        """Spell it for the library."""
        major, minor = self.capability
        fields = (self.name, major, minor, self.total, self.used, self.pid, self.mig, self.looks)
        return "|".join(map(str, fields))


def compile_fake(folder: Path) -> Path:
    """Compile the library; skips where the machine has no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine, and the fake libnvidia-ml is written in C")
    source = folder / "fake.c"
    source.write_text(SOURCE)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True
    )
    return library


def situation(folder: Path, *gpus: FakeGpu, driver: str = "580.95.05", cuda: int = 13000) -> Path:
    """Write what the library reports; gives the file that FAKE_NVML has to name."""
    path = folder / "gpus.txt"
    path.write_text(f"{driver} {cuda}\n" + "".join(gpu.line() + "\n" for gpu in gpus))
    return path


def load(library: Path) -> ctypes.CDLL:
    """Load it for nvidia-ml-py, which looks for it by its name."""
    return ctypes.CDLL(str(library))

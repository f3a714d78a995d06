#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nvitop and gpustat say of this node's GPUs and MIG devices: one line each, in a form that a test compares.

Both use NVIDIA's own binding (nvidia-ml-py) and a wide part of NVML. A field that either could not read is printed as
None or N/A, and is an error where every GPU has it.
"""
import json
import subprocess
import sys

import nvitop


def fail(text):
    sys.exit(f"FAIL {text}")


def known(device, **values):
    """The values as text; each must be known."""
    for name, value in values.items():
        if value in (None, nvitop.NA):
            fail(f"nvitop: {device}: no {name}")
    return " ".join(f"{name}={value}" for name, value in values.items())


def see_by_nvitop():
    """Each GPU and each of its MIG devices; the GPU of a MIG device has no utilization, as on hardware."""
    for device in nvitop.Device.all():
        print("gpu", known(device, uuid=device.uuid(), total=device.memory_total() >> 20, power=device.power_usage() > 0,
                           temperature=device.temperature() > 0, driver=device.driver_version()))
        if not device.is_mig_mode_enabled() and device.gpu_utilization() in (None, nvitop.NA):
            fail(f"nvitop: {device}: no utilization")
        device.processes()
        if not device.is_mig_mode_enabled():
            continue
        for mig in device.mig_devices():
            print("mig", known(mig, uuid=mig.uuid(), total=mig.memory_total() >> 20, gi=mig.gpu_instance_id(),
                               ci=mig.compute_instance_id()))
            mig.processes()


def see_by_gpustat():
    out = subprocess.run([sys.executable, "-m", "gpustat", "--json"], capture_output=True, text=True, check=False, timeout=60)
    if out.returncode:
        fail(f"gpustat: {out.stderr}")
    for gpu in json.loads(out.stdout)["gpus"]:
        for key in ("temperature.gpu", "power.draw", "enforced.power.limit", "memory.used"):
            if gpu[key] is None:
                fail(f"gpustat: GPU {gpu['index']}: no {key}")
        print(f"gpustat uuid={gpu['uuid']} total={gpu['memory.total']}")


def see_the_screen():
    """nvitop's own screen, once."""
    out = subprocess.run([sys.executable, "-m", "nvitop", "--once", "--ascii"], capture_output=True, text=True, check=False, timeout=60)
    if out.returncode or "Driver Version" not in out.stdout or "Traceback" in out.stderr:
        fail(f"nvitop --once: {out.returncode}: {out.stdout}{out.stderr}")


see_by_nvitop()
see_by_gpustat()
see_the_screen()

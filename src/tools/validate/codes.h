/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The findings of a validation, each with a name for programs and advice for people. Status files and
 * scripts use the names, so names do not change.
 * Thread: any.
 */

/* enum, name, advice. */
/* clang-format off */
#define VALIDATE_CODES(X) \
	X(OK, "ok", "") \
	X(SKIPPED, "skipped", "") \
	/* a pass with a condition */ \
	X(NO_SMI, "no-nvidia-smi", "nothing here needs it; install the driver's utilities to have nvidia-smi on the node") \
	X(NO_COMPUTE, "no-compute-device", "MIG is enabled and has no instances: create some before CUDA work comes, or switch MIG off") \
	X(NO_WORKLOAD, "no-workload", "start with --with-workload=true to have GPUs compute something") \
	X(UNHEALTHY, "unhealthy-devices", "'gpuslice status' gives the reason for each GPU") \
	X(FROM_KUBELET, "kubelet-only", "no agent of gpuslice answers, so health and registration are not known; --run-dir names its directory") \
	/* driver */ \
	X(LIBRARY_MISSING, "library-missing", "install the NVIDIA driver; in a container, mount the node at --host-root-ctr-path or the driver's root at --driver-install-dir-ctr-path") \
	X(LIBRARY_BAD, "library-unusable", "reinstall the user-space part of the driver; a library for another machine or C library is in its place") \
	X(NOT_LOADED, "driver-not-loaded", "load the kernel module ('modprobe nvidia') and read 'dmesg | grep NVRM'; with a driver container, read the log of its pod") \
	X(MISMATCH, "driver-mismatch", "library and kernel module are of different versions: unload and load the module while nothing uses a GPU, or reboot the node") \
	X(NO_PERMISSION, "no-permission", "run the container privileged, or give it /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidiaN") \
	X(HANGS, "driver-hangs", "a call into the driver did not come back: look for Xid in 'dmesg', reset that GPU or reboot the node") \
	X(CRASHED, "driver-crashed", "the driver's library ended the process: reinstall the driver, and look for Xid in 'dmesg'") \
	X(NVML_ERROR, "nvml-error", "look for NVRM and Xid in 'dmesg'; 'nvidia-smi' on the node should say the same") \
	X(NO_GPU, "no-gpu", "check that 'lspci -d 10de:' lists the GPU, that it is bound to the driver nvidia, and that the driver supports it") \
	X(GPU_FAULT, "gpu-fault", "look for Xid in 'dmesg'; reset the GPU ('nvidia-smi -r -i N' with nothing on it) or drain and reboot the node") \
	X(SMI_FAILS, "nvidia-smi-fails", "run it by hand on the node and follow what it says") \
	X(NO_CHROOT, "no-chroot", "the container needs SYS_CHROOT (privileged) to run the node's nvidia-smi") \
	X(MODULE_MISSING, "module-missing", "load the kernel module with modprobe, or switch the feature off in the driver container") \
	X(NO_DEVICE_NODE, "device-node-missing", "'nvidia-modprobe -c 0 -u' on the node makes the device nodes; --disable-dev-char-symlink-creation leaves them out of the check") \
	X(DEV_CHAR, "dev-char-links", "mount the node's /dev/char writable at --dev-char-dir; where containers do not use systemd's cgroups, --disable-dev-char-symlink-creation leaves the links out") \
	/* toolkit */ \
	X(NOT_INJECTED, "not-injected", "the container runtime did not bring the driver in: set runtimeClassName: nvidia and NVIDIA_VISIBLE_DEVICES=all on this pod, check 'nvidia-ctk runtime configure', restart the runtime") \
	X(NODE_NOT_INJECTED, "device-not-injected", "the library is here and device nodes are not: check NVIDIA_VISIBLE_DEVICES=all and the runtime class; with CDI, make the spec anew") \
	/* cdi */ \
	X(NO_SPEC, "cdi-no-spec", "let the agent write the spec (deviceListStrategy cdi-cri or cdi-annotations), or mount the node's CDI directories; --cdi-dirs names them") \
	X(SPEC_BAD, "cdi-bad-spec", "make the spec anew: remove the file and restart the agent") \
	X(SPEC_STALE, "cdi-stale-spec", "the spec does not name a GPU or MIG device that is here: remove the file and restart the agent") \
	/* cuda */ \
	X(CUDA_MISSING, "cuda-library-missing", "libcuda.so.1 comes with the driver: NVIDIA_DRIVER_CAPABILITIES must have compute; with --cuda, check the path") \
	X(CUDA_NO_DEVICE, "cuda-no-device", "CUDA sees no GPU: check CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES and that /dev/nvidia-uvm is there") \
	X(CUDA_MISMATCH, "cuda-mismatch", "libcuda.so.1 and the kernel module are of different versions: remove a compat library from LD_LIBRARY_PATH, or reboot after the driver upgrade") \
	X(CUDA_NOT_READY, "cuda-system-not-ready", "NVSwitch systems need nvidia-fabricmanager of the driver's version: start it and look at its log") \
	X(CUDA_JIT, "cuda-jit", "libnvidia-ptxjitcompiler.so.1 is missing or too old: NVIDIA_DRIVER_CAPABILITIES must have compute; reinstall the driver") \
	X(CUDA_BUSY, "cuda-device-unavailable", "a process holds the GPU in an exclusive compute mode ('nvidia-smi -q -d COMPUTE'), or the GPU needs a reset") \
	X(CUDA_MEMORY, "cuda-out-of-memory", "other processes hold all of the GPU's memory: 'nvidia-smi' lists them") \
	X(CUDA_ERROR, "cuda-error", "look for Xid in 'dmesg'; the number is a CUresult of the CUDA driver API") \
	X(CUDA_WRONG, "cuda-wrong-result", "a real GPU: take it out of service and run 'dcgmi diag -r 3'; a simulated GPU: that is expected, its driver computes no kernels") \
	X(CUDA_HIDDEN, "cuda-gpu-not-seen", "NVML lists the GPU and CUDA does not: check /dev/nvidiaN in this container and look for Xid in 'dmesg'") \
	/* plugin */ \
	X(NO_PLUGIN, "no-plugin", "start gpusliced on this node, or give --run-dir and --kubelet-dir as it has them") \
	X(NOT_REGISTERED, "not-registered", "'gpuslice status' says what the kubelet answered; check that the kubelet's device-plugins directory is mounted") \
	X(NO_RESOURCES, "no-resources", "the plugin offers no GPU: check its config with 'gpuslice config check' and its GPUs with 'gpuslice status'") \
	X(TOO_FEW, "too-few-devices", "check replicas in the config, and 'gpuslice status' for GPUs that are not healthy") \
	/* gpuslice validate itself */ \
	X(OUTPUT, "output-dir", "mount a writable directory at --output-dir, or write no files with --output-dir=") \
	X(INTERNAL, "internal", "try again; if it stays, report it")
/* clang-format on */

enum validate_code {
#define X(id, name, advice) VALIDATE_CODE_##id,
	VALIDATE_CODES(X)
#undef X
		VALIDATE_CODE_COUNT_,
};

/* "driver-mismatch"; static. */
const char *validate_code_name(enum validate_code code);

/* The next action, one sentence without a full stop; "": none. Static. */
const char *validate_code_advice(enum validate_code code);

// SPDX-License-Identifier: Apache-2.0
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	cdi "tags.cncf.io/container-device-interface/pkg/cdi"
)

// capabilities in the kernel's order.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID
	SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK
	IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE
	SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
	MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// What containerd gives a container that asks for nothing.
var defaultCapabilities = strings.Fields(`CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID
	SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE`)

// bounding is the set that a container's processes can have at most.
func bounding(sc *cri.LinuxContainerSecurityContext) []string {
	if sc.GetPrivileged() {
		return capabilities
	}
	set := slices.Clone(defaultCapabilities)
	for _, name := range sc.GetCapabilities().GetDropCapabilities() {
		name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		set = slices.DeleteFunc(set, func(c string) bool { return name == "ALL" || c == name })
	}
	for _, name := range sc.GetCapabilities().GetAddCapabilities() {
		if name = strings.TrimPrefix(strings.ToUpper(name), "CAP_"); name == "ALL" {
			return capabilities
		}
		set = append(set, name)
	}
	return set
}

// lookup gives the value that a program sees: the last one of the name.
func lookup(env []string, name string) string {
	value := ""
	for _, e := range env {
		if k, v, _ := strings.Cut(e, "="); k == name {
			value = v
		}
	}
	return value
}

// deviceNode describes a device of the node under its name in the container.
func deviceNode(host, inside string) (*oci.LinuxDevice, error) {
	var st unix.Stat_t
	if err := unix.Stat(host, &st); err != nil {
		return nil, fmt.Errorf("device %s: %w", host, err)
	}
	mode := os.FileMode(st.Mode & 0o777)
	dev := &oci.LinuxDevice{Path: inside, Major: int64(unix.Major(st.Rdev)),
		Minor: int64(unix.Minor(st.Rdev)), FileMode: &mode}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		dev.Type = "c"
	case unix.S_IFBLK:
		dev.Type = "b"
	default: // a real runtime would refuse it
		return nil, fmt.Errorf("%s is not a device node", host)
	}
	return dev, nil
}

// bind is a mount of a node's path at the same place in the container.
func bind(path string, options ...string) oci.Mount {
	return oci.Mount{Destination: path, Source: path, Type: "bind",
		Options: append([]string{"rbind"}, options...)}
}

// makeSpec turns what the kubelet asked for into what the process gets, CDI devices applied.
func (r *runtime) makeSpec(c *container) (*oci.Spec, error) {
	img := r.images.find(c.image)
	sc := c.config.GetLinux().GetSecurityContext()
	spec := &oci.Spec{
		Version:  oci.Version,
		Hostname: c.sandbox.config.Hostname,
		Root:     &oci.Root{Readonly: sc.GetReadonlyRootfs()},
		Process: &oci.Process{
			Cwd:             "/",
			Env:             []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			NoNewPrivileges: sc.GetNoNewPrivs(),
			Capabilities:    &oci.LinuxCapabilities{Bounding: bounding(sc)},
			User: oci.User{UID: uint32(sc.GetRunAsUser().GetValue()),
				GID: uint32(sc.GetRunAsGroup().GetValue())},
		},
		Linux: &oci.Linux{},
	}
	for _, g := range sc.GetSupplementalGroups() {
		spec.Process.User.AdditionalGids = append(spec.Process.User.AdditionalGids, uint32(g))
	}
	p := spec.Process
	// As with images: a command replaces the entry point, arguments follow it.
	p.Args = slices.Concat(img.entrypoint, c.config.Args)
	if len(c.config.Command) > 0 {
		p.Args = slices.Concat(c.config.Command, c.config.Args)
	} else if len(img.entrypoint) == 0 {
		p.Args = []string{"/proc/self/exe", "pause"}
	}
	if c.config.WorkingDir != "" {
		p.Cwd = c.config.WorkingDir
	}
	p.Env = append(p.Env, "HOSTNAME="+c.sandbox.config.Hostname)
	p.Env = append(p.Env, r.env...)
	for _, kv := range c.config.Envs {
		p.Env = append(p.Env, kv.Key+"="+string(kv.Value))
	}
	for _, path := range r.mounts {
		spec.Mounts = append(spec.Mounts, bind(path))
	}
	for _, m := range c.config.Mounts {
		mount := oci.Mount{Destination: m.ContainerPath, Source: m.HostPath, Type: "bind",
			Options: []string{"rbind"}}
		if m.Readonly {
			mount.Options = append(mount.Options, "ro")
		}
		spec.Mounts = append(spec.Mounts, mount)
	}
	for _, d := range c.config.Devices {
		dev, err := deviceNode(d.HostPath, d.ContainerPath)
		if err != nil {
			return nil, err
		}
		spec.Linux.Devices = append(spec.Linux.Devices, *dev)
	}
	if sc.GetPrivileged() {
		spec.Mounts = append([]oci.Mount{bind("/dev")}, spec.Mounts...)
	}
	if err := injectCDI(spec, c.config); err != nil {
		return nil, err
	}
	handler := c.sandbox.handler
	if handler == "" {
		handler = r.runtime
	}
	if handler == "nvidia" {
		if err := r.injectToolkit(spec); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// injectCDI applies the devices that the kubelet names in the request and in annotations, with the
// library that container runtimes use, from the directories that they read.
func injectCDI(spec *oci.Spec, config *cri.ContainerConfig) error {
	_, devices, err := cdi.ParseAnnotations(config.Annotations)
	if err != nil {
		return err
	}
	for _, d := range config.CDIDevices {
		if !slices.Contains(devices, d.Name) {
			devices = append(devices, d.Name)
		}
	}
	if len(devices) == 0 {
		return nil
	}
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	if _, err := cache.InjectDevices(spec, devices...); err != nil {
		return fmt.Errorf("CDI device injection failed: %w", err)
	}
	return nil
}

// simGPU is what `gpuslice sim show --json` says of one GPU.
type simGPU struct {
	Index int    `json:"index"`
	Minor int    `json:"minor"`
	UUID  string `json:"uuid"`
	MIG   struct {
		GPUInstances []struct {
			GI               int `json:"gi"`
			ComputeInstances []struct {
				CI   int    `json:"ci"`
				UUID string `json:"uuid"`
			} `json:"compute_instances"`
		} `json:"gpu_instances"`
	} `json:"mig"`
}

// migNodes are the device nodes of the GPU's MIG device that has this UUID or index ("0:1"): the
// GPU's, and the capabilities of its two instances; none if it is not one of them.
func (g *simGPU) migNodes(name string, minors map[string]string) []string {
	n := 0
	for _, gi := range g.MIG.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			index := fmt.Sprintf("%d:%d", g.Index, n)
			n++
			if name != ci.UUID && name != index {
				continue
			}
			key := fmt.Sprintf("gpu%d/gi%d", g.Minor, gi.GI)
			return []string{fmt.Sprintf("/dev/nvidia%d", g.Minor),
				capability(minors[key+"/access"]),
				capability(minors[fmt.Sprintf("%s/ci%d/access", key, ci.CI)])}
		}
	}
	return nil
}

func capability(minor string) string {
	return "/dev/nvidia-caps/nvidia-cap" + minor
}

// migMinors is the driver's list of capabilities and the minor numbers of their nodes.
func (r *runtime) migMinors() map[string]string {
	minors := map[string]string{}
	text, _ := os.ReadFile(lookup(r.env, "GPUSLICE_SIM_DIR") + "/proc/driver/nvidia-caps/mig-minors")
	for _, line := range strings.Split(string(text), "\n") {
		if key, minor, ok := strings.Cut(line, " "); ok {
			minors[key] = minor
		}
	}
	return minors
}

func (r *runtime) gpus() ([]simGPU, error) {
	cmd := exec.Command(r.gpuslice, "sim", "show", "--json")
	cmd.Env = append(os.Environ(), r.env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s sim show: %w", r.gpuslice, err)
	}
	var node struct {
		GPUs []simGPU `json:"gpus"`
	}
	return node.GPUs, json.Unmarshal(out, &node)
}

const (
	deviceVolumes = "/var/run/nvidia-container-devices/"
	libraryDir    = "/usr/lib/x86_64-linux-gnu"
)

// driverPrograms are those of a driver that a node may have and that containers get.
var driverPrograms = []string{"/usr/bin/nvidia-smi", "/usr/bin/nvidia-cuda-mps-control",
	"/usr/bin/nvidia-cuda-mps-server"}

// wantedGPUs are the names by which NVIDIA's toolkit would choose GPUs: from mounts, or from
// NVIDIA_VISIBLE_DEVICES.
func wantedGPUs(spec *oci.Spec) []string {
	var names []string
	for _, m := range spec.Mounts {
		if name, ok := strings.CutPrefix(m.Destination, deviceVolumes); ok {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return names
	}
	switch v := lookup(spec.Process.Env, "NVIDIA_VISIBLE_DEVICES"); v {
	case "", "void", "none", deviceVolumes[:len(deviceVolumes)-1]:
		return nil
	default:
		return strings.Split(v, ",")
	}
}

// injectToolkit does what NVIDIA's container toolkit does for a container that names GPUs in its
// environment: their device nodes, and the driver's libraries and programs of the node.
func (r *runtime) injectToolkit(spec *oci.Spec) error {
	want := wantedGPUs(spec)
	if len(want) == 0 {
		return nil
	}
	gpus, err := r.gpus()
	if err != nil {
		return err
	}
	minors := r.migMinors()
	var paths []string
	for _, name := range want {
		found := name == "all"
		for _, g := range gpus {
			if nodes := g.migNodes(name, minors); nodes != nil {
				found = true
				paths = append(paths, nodes...)
			}
			if name == "all" || name == g.UUID || name == strconv.Itoa(g.Index) {
				found = true
				paths = append(paths, fmt.Sprintf("/dev/nvidia%d", g.Minor))
			}
		}
		if !found {
			return fmt.Errorf("nvidia-container-cli: device error: %s: unknown device", name)
		}
	}
	for variable, key := range map[string]string{"NVIDIA_MIG_CONFIG_DEVICES": "config",
		"NVIDIA_MIG_MONITOR_DEVICES": "monitor"} {
		if lookup(spec.Process.Env, variable) == "all" {
			paths = append(paths, capability(minors[key]))
		}
	}
	control, _ := filepath.Glob("/dev/nvidia[^0-9]*")
	for _, path := range append(paths, control...) {
		same := func(d oci.LinuxDevice) bool { return d.Path == path }
		if slices.ContainsFunc(spec.Linux.Devices, same) {
			continue
		}
		if dev, err := deviceNode(path, path); err == nil {
			spec.Linux.Devices = append(spec.Linux.Devices, *dev)
		}
	}
	for _, pattern := range []string{"libnvidia-*.so.*", "libcuda.so.*"} {
		files, _ := filepath.Glob(filepath.Join(libraryDir, pattern))
		for _, file := range files {
			spec.Mounts = append(spec.Mounts, bind(file, "ro"))
		}
	}
	for _, file := range driverPrograms {
		if _, err := os.Stat(file); err == nil {
			spec.Mounts = append(spec.Mounts, bind(file, "ro"))
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// Command cdi holds CDI specifications against the CDI project's own library: it loads them from
// a directory as a container runtime does, which refuses keys and values that CDI does not have,
// compares the version that they name with the lowest that their contents need, and injects devices
// into an OCI specification: cdi DIR DEVICE...
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

var failures int

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "FAIL "+format+"\n", args...)
	failures++
}

// checkFile judges one specification: its version, and says its figures.
func checkFile(spec *cdi.Spec) {
	path := spec.GetPath()
	lowest, err := specs.MinimumRequiredVersion(spec.Spec)
	if err != nil {
		fail("%s: %v", path, err)
	} else if lowest != spec.Version {
		fail("%s: cdiVersion %s, and %s is enough", path, spec.Version, lowest)
	}
	info, err := os.Stat(path)
	if err != nil {
		fail("%v", err)
		return
	}
	fmt.Printf("%s cdiVersion=%s devices=%d mounts=%d hooks=%d bytes=%d\n", spec.Kind,
		spec.Version, len(spec.Devices), len(spec.ContainerEdits.Mounts),
		len(spec.ContainerEdits.Hooks), info.Size())
}

// checkContainer looks at what a container would have.
func checkContainer(container *oci.Spec) {
	env := strings.Join(container.Process.Env, "\n")
	if !strings.Contains(env, "NVIDIA_VISIBLE_DEVICES=void") {
		fail("the container's environment is %q", env)
	}
	seen := map[string]bool{}
	for _, m := range container.Mounts {
		if seen[m.Destination] {
			fail("two mounts at %s", m.Destination)
		}
		seen[m.Destination] = true
		if _, err := os.Stat(m.Source); err != nil {
			fail("mount source: %v", err)
		}
	}
	var nodes []string
	for _, d := range container.Linux.Devices {
		nodes = append(nodes, d.Path)
	}
	sort.Strings(nodes)
	fmt.Printf("container: mounts=%d nodes=%s\n", len(container.Mounts),
		strings.Join(nodes, ","))
}

func main() {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	if err != nil {
		fail("%v", err)
		os.Exit(1)
	}
	if err := cache.Refresh(); err != nil {
		fail("%v", err)
	}
	for _, vendor := range cache.ListVendors() {
		for _, spec := range cache.GetVendorSpecs(vendor) {
			checkFile(spec)
		}
	}
	if len(os.Args) > 2 {
		container := &oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{}}
		if _, err := cache.InjectDevices(container, os.Args[2:]...); err != nil {
			fail("inject: %v", err)
		} else {
			checkContainer(container)
		}
	}
	if failures > 0 {
		os.Exit(1)
	}
}

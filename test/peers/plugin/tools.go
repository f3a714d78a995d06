// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package plugin names the programs of NVIDIA's device plugin that run.sh builds, unmodified, from
// the Go module proxy: the newest release that it offers.
package plugin

import (
	_ "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery"
	_ "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
)

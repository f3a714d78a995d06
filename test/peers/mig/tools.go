// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins nvidia-mig-parted, which run.sh builds as it is.
package tools

import _ "github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted"

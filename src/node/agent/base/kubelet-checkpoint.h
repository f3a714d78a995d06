/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The checkpoint of the kubelet's device manager, a file in the device plugins' directory. It is private to the kubelet.
 * Two parts read it, each what it needs:
 *
 *	node/agent/slices/checkpoint.h      the slices that it names, which must not be removed
 *	node/agent/monitoring/checkpoint.h  the UIDs of pods that hold devices
 */
#define KUBELET_CHECKPOINT     "kubelet_internal_checkpoint"
#define KUBELET_CHECKPOINT_MAX (64 << 20) /* bytes; a larger file is not read */

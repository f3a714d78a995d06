/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the editor. Inside src/io/mig-editor only. Thread: one. */
#include "io/mig-editor/editor.h"
#include "io/mig-editor/read.h"

struct mig_editor {
	struct mig_session session;
	struct mig_node node;
	struct mig_gpu *gpus; /* in the order of node.gpus */
	bool fresh;           /* the node was read, and no step followed */
};

/* Reads the mode and the instances of GPU @g again; with @clients its processes as well. < 0: @err
 * is set, .fault of the GPU is not. */
int mig_editor_refresh_gpu(struct mig_editor *e, struct mig_gpu *g, bool clients,
	struct error *err) MUST_USE;

/* Starts NVML again and gets new handles of all GPUs; a failure for one GPU sets its .fault. The
 * caller reads the instances again. */
int mig_editor_restart(struct mig_editor *e, struct error *err) MUST_USE;

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the editor share. Inside src/io/mig-editor only. Thread: one. */
#include "io/mig-editor/editor.h"
#include "io/mig-editor/read.h"

struct mig_editor {
	struct mig_session session;
	struct mig_node node;
	struct mig_gpu *gpus; /* as node.gpus */
	bool fresh;           /* read, and nothing has been done since */
};

/* Reads GPU @g anew as far as it changes; a failure is its fault. With what uses it: @clients. */
int mig_editor_refresh_gpu(struct mig_editor *e, struct mig_gpu *g, bool clients,
	struct error *err) MUST_USE;

/* NVML from its start, with new handles of all GPUs; their instances are to be looked at anew. */
int mig_editor_restart(struct mig_editor *e, struct error *err) MUST_USE;

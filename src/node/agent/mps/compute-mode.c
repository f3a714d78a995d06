/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/compute-mode.h"

#include "node/agent/mps/supervisor.h"
#include "lib/base/array.h"
#include "lib/base/paths.h"
#include "lib/base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Sets and restores the compute modes of GPUs with `computeMode: exclusive`. Calls of NVML may hang, so the helper
 * gpuslice-mps makes them.
 *
 * 1. The helper reads the modes, and the agent saves them in daemon.json.
 * 2. The helper sets the mode.
 * 3. When the daemon is gone or the config changes, the helper restores the saved modes, and the agent saves
 *    daemon.json without them.
 */

#define HELPER    "gpuslice-mps"
#define HELPER_NS (10 * NS_PER_SEC)
#define EXCLUSIVE 3 /* NVML_COMPUTEMODE_EXCLUSIVE_PROCESS */

static bool has_saved_compute_mode(const struct mps_supervisor *sup, const char *uuid)
{
	for (uint32_t i = 0; i < sup->dir.n_modes; i++)
		if (!strcmp(sup->dir.modes[i].uuid, uuid))
			return true;
	return false;
}

/*
 * A line "UUID MODE", the present mode. A mode that is saved already stays: it is from before a daemon that was
 * killed.
 */
static int on_compute_mode_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mps_supervisor *sup = arg;
	struct mps_saved_mode m = { .before = 0 };
	const char *blank = memchr(line, ' ', len);
	size_t n = blank ? (size_t)(blank - line) : 0;

	if (n == 0 || n >= sizeof(m.uuid) || !parse_u32(blank + 1, &m.before))
		return error_set(err, ERR_INTERNAL, HELPER " said something else");
	memcpy(m.uuid, line, n);
	if (has_saved_compute_mode(sup, m.uuid))
		return 0;
	if (!ARRAY_EXTEND(&sup->dir.modes, sup->dir.n_modes, 1, UINT32_MAX))
		return error_nomem(err);
	sup->dir.modes[sup->dir.n_modes++] = m;
	return 0;
}

static void on_compute_mode_ended(void *arg, const struct child_end *e)
{
	struct mps_supervisor *sup = arg;
	bool ok =
		!e->was_silent && e->error.code == ERR_NONE && e->status == 0 && e->signal == 0;

	sup->helper = NULL;
	sup->modes_done(sup, ok, e->was_silent ? "NVML does not answer" : e->words);
}

static const struct child_ops ops = { .line = on_compute_mode_line,
	.ended = on_compute_mode_ended };

/* @set < 0: the helper only reads. */
static int run_compute_mode_helper(struct mps_supervisor *sup, int set,
	const char *const *uuids, size_t n, struct error *err)
{
	const char *argv[GPU_NODE_MAX + 12],
		*root = sup->mps->c.facts->config->container_driver_root;
	const struct child_spec what = { .argv = argv, .silence_ns = HELPER_NS };
	char helper[PATH_MAX], mode[16];
	size_t at = 0;

	argv[at++] = helper;
	if (sup->mps->c.nvml_path) {
		argv[at++] = "--nvml";
		argv[at++] = sup->mps->c.nvml_path;
	}
	if (root && *root) {
		argv[at++] = "--driver-root";
		argv[at++] = root;
	}
	if (set >= 0) {
		(void)snprintf(mode, sizeof(mode), "%d", set);
		argv[at++] = "--set";
		argv[at++] = mode;
	}
	argv[at++] = "mode";
	for (size_t i = 0; i < n && i < GPU_NODE_MAX; i++)
		argv[at++] = uuids[i];
	argv[at] = NULL;
	if (libexec_find(helper, HELPER, "node/agent/mps", err) < 0)
		return -1;
	return proc_start(&sup->helper, sup->mps->c.loop, &what, &ops, sup, err);
}

int mps_modes_read(struct mps_supervisor *sup, struct error *err)
{
	return run_compute_mode_helper(sup, -1, (const char *const *)sup->dir.devices.v,
		sup->dir.devices.n, err);
}

int mps_modes_set(struct mps_supervisor *sup, struct error *err)
{
	return run_compute_mode_helper(sup, EXCLUSIVE, (const char *const *)sup->dir.devices.v,
		sup->dir.devices.n, err);
}

/* The GPUs with the same saved mode as the first, mostly all: one run of the helper restores them. */
static size_t first_group(const struct mps_supervisor *sup, const char **uuids)
{
	size_t n = 0;

	for (uint32_t i = 0; i < sup->dir.n_modes && n < GPU_NODE_MAX; i++)
		if (sup->dir.modes[i].before == sup->dir.modes[0].before)
			uuids[n++] = sup->dir.modes[i].uuid;
	return n;
}

int mps_modes_restore(struct mps_supervisor *sup, struct error *err)
{
	const char *uuids[GPU_NODE_MAX];
	size_t n = first_group(sup, uuids);

	return run_compute_mode_helper(sup, (int)sup->dir.modes[0].before, uuids, n, err);
}

void mps_modes_forget(struct mps_supervisor *sup)
{
	struct mps_daemon_dir *dir = &sup->dir;
	uint32_t kept = 0, before = dir->n_modes ? dir->modes[0].before : 0;

	for (uint32_t i = 0; i < dir->n_modes; i++)
		if (dir->modes[i].before != before)
			dir->modes[kept++] = dir->modes[i];
	dir->n_modes = kept;
}

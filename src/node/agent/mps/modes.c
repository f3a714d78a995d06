/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/unit.h"

#include "lib/base/libexec.h"
#include "lib/base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Compute modes of GPUs with `computeMode: exclusive`: read and written down first, then set; put back as they were when
 * the daemon is gone. By a process of its own, since calls of NVML may hang.
 */

#define HELPER    "gpuslice-mps"
#define HELPER_NS (10 * NS_PER_SEC)
#define EXCLUSIVE 3 /* NVML_COMPUTEMODE_EXCLUSIVE_PROCESS */

static bool is_kept(const struct mps_unit *u, const char *uuid)
{
	for (uint32_t i = 0; i < u->place.n_modes; i++)
		if (!strcmp(u->place.modes[i].uuid, uuid))
			return true;
	return false;
}

/* "UUID MODE", as it was. An older word counts, of before a daemon that was killed. */
static int on_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct mps_unit *u = arg;
	struct mps_mode m = { .before = 0 }, *more;
	const char *blank = memchr(line, ' ', len);
	size_t n = blank ? (size_t)(blank - line) : 0;

	if (n == 0 || n >= sizeof(m.uuid) || !parse_u32(blank + 1, &m.before))
		return error_set(err, ERR_INTERNAL, HELPER " said something else");
	memcpy(m.uuid, line, n);
	if (is_kept(u, m.uuid))
		return 0;
	more = reallocarray(u->place.modes, u->place.n_modes + 1, sizeof(*more));
	if (!more)
		return error_nomem(err);
	u->place.modes = more;
	more[u->place.n_modes++] = m;
	return 0;
}

static void on_ended(void *arg, const struct child_end *e)
{
	struct mps_unit *u = arg;
	bool ok = !e->silent && e->error.code == ERR_NONE && e->status == 0 && e->signal == 0;

	u->helper = NULL;
	u->modes_done(u, ok, e->silent ? "NVML does not answer" : e->words);
}

static const struct child_ops ops = { .line = on_line, .ended = on_ended };

/* @set < 0: only reads. */
static int run(struct mps_unit *u, int set, const char *const *uuids, size_t n,
	struct error *err)
{
	const char *argv[GPU_NODE_MAX + 12],
		*root = u->mps->c.facts->config->container_driver_root;
	const struct child_what what = { .argv = argv, .silence_ns = HELPER_NS };
	char helper[PATH_MAX], mode[16];
	size_t at = 0;

	argv[at++] = helper;
	if (u->mps->c.nvml_path) {
		argv[at++] = "--nvml";
		argv[at++] = u->mps->c.nvml_path;
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
	return proc_start(&u->helper, u->mps->c.loop, &what, &ops, u, err);
}

int modes_read(struct mps_unit *u, struct error *err)
{
	return run(u, -1, (const char *const *)u->place.devices.v, u->place.devices.n, err);
}

int modes_set(struct mps_unit *u, struct error *err)
{
	return run(u, EXCLUSIVE, (const char *const *)u->place.devices.v, u->place.devices.n,
		err);
}

/* Those that had the same one go together: mostly all. */
static size_t first_group(const struct mps_unit *u, const char **uuids)
{
	size_t n = 0;

	for (uint32_t i = 0; i < u->place.n_modes && n < GPU_NODE_MAX; i++)
		if (u->place.modes[i].before == u->place.modes[0].before)
			uuids[n++] = u->place.modes[i].uuid;
	return n;
}

int modes_restore(struct mps_unit *u, struct error *err)
{
	const char *uuids[GPU_NODE_MAX];
	size_t n = first_group(u, uuids);

	return run(u, (int)u->place.modes[0].before, uuids, n, err);
}

void modes_forget(struct mps_unit *u)
{
	struct mps_place *p = &u->place;
	uint32_t kept = 0, before = p->n_modes ? p->modes[0].before : 0;

	for (uint32_t i = 0; i < p->n_modes; i++)
		if (p->modes[i].before != before)
			p->modes[kept++] = p->modes[i];
	p->n_modes = kept;
}

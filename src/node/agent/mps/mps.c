/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/process.h"
#include "node/agent/mps/supervisor.h"

#include "lib/base/parse.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_ROOT "/mps"

static const char *root_of(const struct mps *m)
{
	const char *root = m->c.facts->config->mps_root;

	return *root ? root : MPS_DEFAULT_ROOT;
}

/* Whether the daemon is below @root. A change of the config may have moved the root. */
static bool is_mps_daemon_below(const struct mps_supervisor *sup, const char *root)
{
	size_t n = strlen(root);

	while (n > 1 && root[n - 1] == '/')
		n--;
	return !strncmp(sup->dir.dir, root, n) && sup->dir.dir[n] == '/';
}

static struct mps_supervisor *find_mps_daemon(const struct mps *m, const char *key)
{
	for (struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		if (!sup->closed && !strcmp(sup->key, key) &&
			is_mps_daemon_below(sup, root_of(m)))
			return sup;
	return NULL;
}

static struct mps_supervisor *add_mps_daemon(struct mps *m, const char *root, const char *key,
	struct error *err)
{
	struct mps_supervisor *sup = mps_supervisor_new(m, root, key, err);

	if (sup) {
		sup->next = m->daemons;
		m->daemons = sup;
	}
	return sup;
}

/* --- follow the plan --- */

static int set_mps_daemon_spec(struct mps_supervisor *sup, const struct mps_daemon *d,
	struct error *err)
{
	uint32_t before = sup->desired.percent;
	uint64_t limits[GPU_NODE_MAX];
	struct mps_spec *s = &sup->desired;

	memcpy(limits, s->limits, sizeof(limits));
	if (mps_spec_set(s, d, err) < 0)
		return -1;
	sup->wanted = true;
	/* Restarts the setting of limits, if they changed meanwhile. */
	if (sup->state == MPS_SETTING &&
		(before != s->percent || memcmp(limits, s->limits, sizeof(limits)) != 0))
		sup->step = 0;
	return 0;
}

static bool is_mps_daemon_planned(const struct mps_plan *p, const char *key)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (!strcmp(p->daemons[i].key, key))
			return true;
	return false;
}

static void apply_mps_plan(struct mps *m)
{
	const struct mps_plan *p = m->plan;
	struct error err = ERROR_INIT;

	for (struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		if (!sup->closed && !(is_mps_daemon_planned(p, sup->key) &&
					    is_mps_daemon_below(sup, root_of(m))))
			sup->wanted = false;
	for (uint32_t i = 0; i < p->n; i++) {
		struct mps_supervisor *sup = find_mps_daemon(m, p->daemons[i].key);

		if (!sup && mps_root_save(m->c.run_dir, root_of(m), &err) == 0)
			sup = add_mps_daemon(m, root_of(m), p->daemons[i].key, &err);
		/* A daemon that cannot be added does not affect the others. */
		if (sup && set_mps_daemon_spec(sup, &p->daemons[i], &err) < 0)
			sup->wanted = false;
	}
	if (err.code != ERR_NONE && strcmp(m->error.msg, err.msg) != 0)
		log_error("MPS cannot be had", LOG_STR("reason", err.msg));
	m->error = err;
}

/* Frees closed supervisors whose handles are closed too. */
static void free_gone_mps_daemons(struct mps *m)
{
	struct mps_supervisor **at = &m->daemons;

	while (*at) {
		struct mps_supervisor *sup = *at;

		if (!sup->closed || sup->handles > 0) {
			at = &sup->next;
			continue;
		}
		*at = sup->next;
		mps_supervisor_free(sup);
	}
}

void mps_sync(struct mps *m)
{
	struct mps_plan *plan;
	struct error err = ERROR_INIT;

	if (m->stopped || !m->c.facts->offered.offer || !m->c.facts->decided ||
		m->c.facts->offer_error.code != ERR_NONE)
		return;
	if (mps_plan_new(&plan, m->c.facts->offered.offer, m->c.facts->offered.inv,
		    m->c.facts->config, &err) < 0) {
		if (strcmp(m->error.msg, err.msg) != 0)
			log_error("MPS stays as it was", LOG_STR("reason", err.msg));
		m->error = err;
		return;
	}
	m->plan = mps_plan_free(m->plan);
	m->plan = plan;
	apply_mps_plan(m);
	for (struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		mps_supervisor_step(sup);
	free_gone_mps_daemons(m);
}

/* --- containers --- */

bool mps_device_ok(const struct mps *m, const struct resource *r, const struct offer_device *d,
	const char **ret_why)
{
	static const char lost_then[] =
		"its MPS daemon was started while this GPU was lost, and is restarted when its "
		"clients have ended";
	const struct mps_daemon *daemon;
	const struct mps_supervisor *sup;
	bool lacking;

	if (!mps_shares(r, d))
		return true;
	daemon = m->plan ? mps_plan_find(m->plan, d->gpu, d->mig) : NULL;
	sup = daemon ? find_mps_daemon(m, daemon->key) : NULL;
	lacking = sup && mps_supervisor_is_usable(sup) &&
		  !mps_supervisor_has_device(sup,
			  mps_uuid(m->c.facts->offered.inv, d->gpu, d->mig));
	if (sup && mps_supervisor_is_usable(sup) && !lacking)
		return true;
	if (ret_why)
		*ret_why = lacking         ? lost_then
			   : sup           ? sup->why
			   : *m->error.msg ? m->error.msg
					   : "MPS is not started";
	return false;
}

static int add_limits(struct allocation *to, const struct mps_grant *g, struct error *err)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", (unsigned)g->percent);
	if (allocation_add_env(to, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text, err) < 0)
		return -1;
	if (*g->memory &&
		allocation_add_env(to, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", g->memory, err) < 0)
		return -1;
	(void)snprintf(text, sizeof(text), "%d", g->priority);
	return g->priority == MPS_PRIORITY_UNSET
		       ? 0
		       : allocation_add_env(to, "CUDA_MPS_CLIENT_PRIORITY", text, err);
}

/* Names the devices to the process, for Events after a fault (mps/clients.h). */
static int add_mps_devices_env(struct allocation *to, const char *const *ids, size_t n,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OFFER_DEVICES_MAX * (size_t)DEVICE_ID_MAX);

	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", ids[i]);
	if (!buf_ok(&b))
		return error_nomem(err);
	return allocation_add_env(to, MPS_DEVICES_VARIABLE, buf_str(&b), err);
}

/* Refuses devices that MPS shares, as there is no plan yet. Other devices are not affected. */
static int refuse_without_plan(const struct mps *m, const struct resource *r,
	const char *const *ids, size_t n_ids, struct error *err)
{
	for (size_t i = 0; i < n_ids; i++) {
		const struct offer_device *d = resource_find(r, ids[i]);

		if (d && mps_shares(r, d))
			return error_set(err, ERR_UNAVAILABLE,
				"resource \"%s\" is shared by MPS, which cannot be had: %s",
				r->name, m->error.msg);
	}
	return 0;
}

int mps_allocate(struct mps *m, const struct resource *r, const char *const *ids, size_t n_ids,
	struct allocation *to, struct error *err)
{
	struct mps_grant g = { .daemon = NULL };
	char pipe[PATH_MAX];
	const struct offer_device *d;
	const struct mps_supervisor *sup;
	const char *why;

	if (!m->plan)
		return refuse_without_plan(m, r, ids, n_ids, err);
	if (mps_grant_make(&g, m->plan, r, m->c.facts->offered.inv, ids, n_ids, err) < 0)
		return -1;
	if (!g.daemon)
		return 0;
	/* Without a daemon CUDA would run without MPS, and without a message. */
	for (size_t i = 0; i < n_ids; i++)
		if ((d = resource_find(r, ids[i])) && !mps_device_ok(m, r, d, &why))
			return error_set(err, ERR_UNAVAILABLE,
				"resource \"%s\" is shared by MPS, which cannot be used now: %s",
				r->name, why);
	sup = find_mps_daemon(m, g.daemon->key);
	(void)snprintf(pipe, sizeof(pipe), "%s/%s/pipe", CONTAINER_ROOT, r->name);
	if (allocation_add_env(to, "CUDA_MPS_PIPE_DIRECTORY", pipe, err) < 0 ||
		add_limits(to, &g, err) < 0 || add_mps_devices_env(to, ids, n_ids, err) < 0 ||
		allocation_add_mount(to, sup->dir.pipe, pipe, /* read_only= */ false, err) < 0)
		return -1;
	return mps_needs_shm(m) ? allocation_add_mount(to, sup->dir.shm, "/dev/shm", false, err)
				: 0;
}

/* --- the MIG manager --- */

static bool can_answer(const struct mps_supervisor *sup)
{
	return !sup->closed && sup->process &&
	       (sup->state == MPS_READY || sup->state == MPS_DRAINING);
}

void mps_query_clients(struct mps *m)
{
	for (struct mps_supervisor *sup = m->daemons; sup; sup = sup->next) {
		if (!can_answer(sup))
			continue;
		if (sup->check.done_ns)
			sup->check.done_ns = 1; /* makes a check due */
		mps_supervisor_step(sup);
	}
}

bool mps_has_answered(const struct mps *m, uint64_t since_ns)
{
	for (const struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		if (can_answer(sup) && sup->check.done_ns < since_ns)
			return false;
	return true;
}

uint32_t mps_idle_servers(const struct mps *m, uint64_t since_ns, uint32_t *ret, uint32_t max)
{
	uint32_t n = 0;

	for (const struct mps_supervisor *sup = m->daemons; sup; sup = sup->next) {
		if (!can_answer(sup) || sup->check.done_ns < since_ns ||
			!mps_supervisor_is_unused(sup))
			continue;
		for (uint32_t i = 0; i < sup->n_servers && n < max; i++)
			ret[n++] = sup->servers[i];
	}
	return n;
}

/* A supervisor that the plan has not named yet has no desired devices. Its key is its device. */
static bool is_leaving(const struct mps_supervisor *sup,
	bool (*leaves)(void *arg, const char *uuid), void *arg)
{
	for (size_t i = 0; i < sup->desired.uuids.n; i++)
		if (leaves(arg, sup->desired.uuids.v[i]))
			return true;
	return sup->desired.uuids.n == 0 && leaves(arg, sup->key);
}

static const struct mps_client *any_client(const struct mps_supervisor *sup)
{
	for (uint32_t i = 0; sup->check.done_ns && i < sup->clients.n; i++)
		if (sup->clients.v[i].connected)
			return &sup->clients.v[i];
	return NULL;
}

int mps_check_withdrawn(const struct mps *m, bool (*leaves)(void *arg, const char *uuid),
	void *arg, struct error *err)
{
	int r = 0;

	for (const struct mps_supervisor *sup = m->daemons; sup; sup = sup->next) {
		const struct mps_client *c;

		if (sup->closed || (sup->state == MPS_DOWN && !sup->process) ||
			!is_leaving(sup, leaves, arg))
			continue;
		c = any_client(sup);
		if (c)
			return error_set(err, ERR_UNAVAILABLE,
				"in use by a client of MPS: %s (process %u) on %s",
				*c->name ? c->name : "a program", c->pid,
				sup->desired.uuids.n ? sup->desired.uuids.v[0] : sup->key);
		r = 1;
	}
	return r;
}

/* --- status --- */

static json_t *client_status(struct mps_client c)
{
	utf8_make_valid(c.name);
	utf8_make_valid(c.devices);
	return json_pack("{s:i, s:s, s:s}", "pid", (int)c.pid, "name", c.name, "devices",
		c.devices);
}

static json_t *clients_status(const struct mps_supervisor *sup)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < sup->clients.n; i++) {
		const struct mps_client *c = &sup->clients.v[i];

		if (c->connected)
			(void)json_array_append_new(list, client_status(*c));
	}
	return list;
}

static json_t *format_mps_daemon_status(const struct mps_supervisor *sup)
{
	json_t *o = json_object(), *uuids = json_array(), *limits = json_array();
	char why[ERROR_MSG_MAX];

	memcpy(why, sup->why, sizeof(why));
	utf8_make_valid(why);
	for (size_t i = 0; i < sup->desired.uuids.n; i++) {
		(void)json_array_append_new(uuids, json_string(sup->desired.uuids.v[i]));
		(void)json_array_append_new(limits,
			json_integer((json_int_t)sup->desired.limits[i]));
	}
	(void)json_object_update_missing_new(o,
		json_pack("{s:s, s:o, s:s, s:s, s:b, s:i, s:o, s:i, s:b, s:I, s:I, s:I, s:o}",
			"key", sup->key, "devices", uuids, "state", mps_state_name(sup->state),
			"why", why, "usable", mps_supervisor_is_usable(sup), "pid",
			(int)mps_process_pid(sup), "memoryLimitsMib", limits,
			"activeThreadPercentage", (int)sup->desired.percent, "exclusive",
			sup->desired.exclusive, "daemonDeaths",
			(json_int_t)sup->counts.daemon_deaths, "faults",
			(json_int_t)sup->counts.faults, "serverDeaths",
			(json_int_t)sup->counts.server_deaths, "clients", clients_status(sup)));
	return o;
}

json_t *mps_status(const struct mps *m)
{
	json_t *list = json_array();

	for (const struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		if (!sup->closed)
			(void)json_array_append_new(list, format_mps_daemon_status(sup));
	return list;
}

/* --- life --- */

void mps_init(struct mps *m, const struct mps_context *context)
{
	*m = (struct mps){ .c = *context };
}

static void find_old_mps_daemons(struct mps *m, const char *root)
{
	CLEANUP(strv_fini) struct strv keys = STRV_INIT;
	struct error err = ERROR_INIT;

	if (mps_daemon_dirs_find(&keys, root, &err) < 0)
		log_warn("what MPS left behind cannot be seen", LOG_STR("reason", err.msg));
	for (size_t i = 0; i < keys.n; i++) {
		error_clear(&err);
		if (!add_mps_daemon(m, root, keys.v[i], &err))
			log_warn("what is left of an MPS daemon cannot be understood",
				LOG_STR("daemon", keys.v[i]), LOG_STR("reason", err.msg));
	}
}

void mps_start(struct mps *m)
{
	CLEANUP(strv_fini) struct strv roots = STRV_INIT;
	struct error err = ERROR_INIT;

	if (mps_roots_load(&roots, m->c.run_dir, &err) < 0)
		log_warn("what MPS left behind is not known", LOG_STR("reason", err.msg));
	/* The file with the list may be lost with the run directory. */
	if (!strv_has(&roots, root_of(m)))
		find_old_mps_daemons(m, root_of(m));
	for (size_t i = 0; i < roots.n; i++)
		find_old_mps_daemons(m, roots.v[i]);
}

void mps_stop(struct mps *m)
{
	m->stopped = true;
	for (struct mps_supervisor *sup = m->daemons; sup; sup = sup->next)
		mps_supervisor_stop(sup);
}

void mps_fini(struct mps *m)
{
	while (m->daemons) {
		struct mps_supervisor *sup = m->daemons;

		m->daemons = sup->next;
		mps_supervisor_free(sup);
	}
	m->plan = mps_plan_free(m->plan);
}

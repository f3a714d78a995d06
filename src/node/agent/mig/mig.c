/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "io/config/config.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "io/config/json.h"
#include "io/config/mig/mig.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The tool prints a line before each step. The slowest step is a reset of the GPUs. */
#define SILENCE_NS  (60 * NS_PER_SEC)
#define SILENCE_ENV "GPUSLICE_MIG_SILENCE"
/* NVIDIA's limit for the pods of GPU clients to go. */
#define CLIENTS_NS  (300 * NS_PER_SEC)
#define CLIENTS_ENV "GPUSLICE_MIG_CLIENTS"
#define TOOL_ENV    "GPUSLICE_TOOL"
#define TOOL_NAME   "gpuslice"

/* --- what is desired --- */

static void set_mig_wait_reason(struct mig *m, const char *why)
{
	if (strcmp(m->desired.waiting, why) != 0 && *why)
		log_info("MIG manager waits", LOG_STR("reason", why));
	(void)snprintf(m->desired.waiting, sizeof(m->desired.waiting), "%s", why);
}

/* Reads the text of the layouts. > 0: not known yet, *err has the reason. */
static int read_mig_layouts(struct mig *m, struct buf *text, struct error *err)
{
	const char *entry = *m->layouts.dir ? m->layouts.entry : MIG_CONFIG_KEY;
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	int r;

	if (!*m->layouts.dir && !*m->layouts.map)
		return 0;
	if (!m->layouts.source) {
		(void)error_set(err, ERR_UNAVAILABLE, "configmap %s/%s: %s",
			m->layouts.map_namespace, m->layouts.map, api_link_error(m->c.link));
		return CONFIG_SOURCE_WAIT;
	}
	r = config_source_names(m->layouts.source, &names, err);
	if (r != 0)
		return r;
	if (!strv_has(&names, entry))
		return error_set(err, ERR_NOT_FOUND, "%s has no %s",
			config_source_text(m->layouts.source), entry);
	return config_source_read(m->layouts.source, entry, text, err);
}

static enum mig_desired_source update_mig_desired(struct mig *m, const char **ret_name)
{
	const struct node_object *n = m->c.link->node;
	bool known = n && node_object_state(n) == NODE_PRESENT;
	const struct mig_desired_input in = {
		.label_needed = m->c.link->possible,
		.label_known = known,
		.label = known ? node_object_label(n, MIG_LABEL) : NULL,
		.default_name = m->c.options.default_name,
		.inv = m->c.facts->node.inv,
	};

	return mig_find_desired(&in, ret_name);
}

/* What the Node reports of an earlier agent. */
static void read_mig_node_state(struct mig *m)
{
	const struct node_object *n = m->c.link->node;
	const char *state;

	if (m->last_boot != MIG_BOOT_UNKNOWN || !n || node_object_state(n) != NODE_PRESENT)
		return;
	state = node_object_label(n, MIG_STATE_LABEL);
	m->last_boot =
		state && !strcmp(state, "rebooting") ? MIG_BOOT_BY_AGENT : MIG_BOOT_OTHER;
}

/* The label was removed: no attempt is pending any more, of this agent or an earlier one. */
static void clear_mig_desired(struct mig *m)
{
	const struct node_object *n = m->c.link->node;
	const char *state = n ? node_object_label(n, MIG_STATE_LABEL) : NULL;

	set_mig_wait_reason(m, "");
	m->desired.text_since_ns = 0;
	m->desired.key[0] = m->tried.key[0] = '\0';
	if (m->outcome.state == MIG_OUTCOME_COMPARED)
		m->outcome.state = MIG_OUTCOME_APPLIED;
	m->outcome.retry_at_ns = 0;
	m->last_boot = MIG_BOOT_OTHER;
	if (m->phase != MIG_REST && !mig_attempt_interrupt(m))
		return;
	if (state && (!strcmp(state, "pending") || !strcmp(state, "rebooting")))
		mig_node_set_state(m, "", "");
	if (m->node.desired.clients != MIG_CLIENTS_RUN)
		mig_node_clients(m, MIG_CLIENTS_RUN);
	mig_attempt_clean(m);
}

/* --- when --- */

static bool has_applied(const struct mig *m)
{
	return m->outcome.state == MIG_OUTCOME_APPLIED ||
	       m->outcome.state == MIG_OUTCOME_COMPARED;
}

static bool is_mig_attempt_due(struct mig *m)
{
	const struct gpu *gpu = NULL;

	if (strcmp(m->desired.key, m->tried.key) != 0)
		return true;
	if (!has_applied(m))
		return time_mono_ns() >= m->outcome.retry_at_ns ||
		       (m->c.facts->node.inv &&
			       mig_basis_hash(m->c.facts->node.inv) != m->outcome.failed_with);
	if (m->outcome.state != MIG_OUTCOME_COMPARED || !m->c.facts->node.inv ||
		m->c.facts->nvml_down.code != ERR_NONE)
		return false;
	switch (mig_basis_drift(&m->outcome.basis, m->c.facts->node.inv, &gpu)) {
	case MIG_DRIFT_NONE:
		return false;
	case MIG_DRIFT_MISSING:
		log_warn("a GPU has lost its MIG layout, applying it again",
			LOG_UINT("gpu", gpu->index), LOG_STR("uuid", gpu->uuid));
		return true;
	case MIG_DRIFT_OTHER:
		break;
	}
	log_warn("somebody changed the MIG layout", LOG_UINT("gpu", gpu->index),
		LOG_STR("uuid", gpu->uuid));
	report_event(m->c.reporter, EVENT_WARNING, "MigConfigDrift",
		"GPU %u (%s) is not as %s says any more; it is left so until the label or the "
		"config changes",
		gpu->index, gpu->uuid, m->tried.name);
	return false;
}

static void on_mig_retry_timer(uv_timer_t *t)
{
	mig_sync(t->data);
}

/*
 * Whether to go on waiting for the layouts. The wait is limited: a user waits for the state, and an earlier
 * agent may have paused clients.
 */
static bool is_waiting_for_layouts(struct mig *m, const char *why)
{
	uint64_t now = time_mono_ns();

	set_mig_wait_reason(m, why);
	if (m->phase != MIG_REST)
		return true;
	if (!m->desired.text_since_ns)
		m->desired.text_since_ns = now;
	if (now - m->desired.text_since_ns >= m->silence_ns)
		return false;
	(void)uv_timer_start(&m->timer, on_mig_retry_timer,
		(m->desired.text_since_ns + m->silence_ns - now) / NS_PER_MS + 1, 0);
	return true;
}

static void arm_mig_retry_timer(struct mig *m)
{
	uint64_t now = time_mono_ns();

	if (m->phase == MIG_REST && !has_applied(m) && m->outcome.retry_at_ns)
		(void)uv_timer_start(&m->timer, on_mig_retry_timer,
			m->outcome.retry_at_ns > now
				? (m->outcome.retry_at_ns - now) / NS_PER_MS + 1
				: 1,
			0);
}

static void begin_mig_attempt(struct mig *m, const char *name, struct buf *text,
	const struct error *why)
{
	if (strcmp(m->desired.key, m->tried.key) != 0) {
		/* Another layout than that of the last boot. */
		if (*m->tried.key)
			m->last_boot = MIG_BOOT_OTHER;
		m->outcome.failures = 0;
		m->outcome.paused_in_vain = false;
		m->outcome.reported_error[0] = '\0';
		memcpy(m->tried.key, m->desired.key, sizeof(m->tried.key));
	}
	(void)snprintf(m->tried.name, sizeof(m->tried.name), "%s", name);
	m->tried.by = m->desired.source;
	buf_fini(&m->tried.text);
	m->tried.text = *text;
	*text = (struct buf)BUF_INIT(0);
	m->tried.source_error = *why;
	mig_attempt_start(m);
}

void mig_sync(struct mig *m)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;
	const char *name;
	int r;

	if (!m->started)
		return;
	read_mig_node_state(m);
	task_poke(&m->node.task);
	if (!m->c.facts->nvml_answered && m->c.facts->nvml_down.code == ERR_NONE) {
		set_mig_wait_reason(m, "the GPUs are not known yet");
		return;
	}
	m->desired.source = update_mig_desired(m, &name);
	if (m->desired.source == MIG_DESIRED_UNKNOWN) {
		set_mig_wait_reason(m, api_link_error(m->c.link));
		m->desired.text_since_ns = 0;
		return;
	}
	if (m->desired.source == MIG_DESIRED_NONE) {
		clear_mig_desired(m);
		return;
	}
	r = read_mig_layouts(m, &text, &err);
	if (r > 0 && is_waiting_for_layouts(m, err.msg))
		return;
	if (r <= 0) {
		m->desired.text_since_ns = 0;
		set_mig_wait_reason(m, "");
	}
	if (r > 0) /* one key for all reasons, as their text may change */
		mig_desired_key(name, "?", 1, m->desired.key);
	else if (r < 0)
		mig_desired_key(name, err.msg, strlen(err.msg), m->desired.key);
	else
		mig_desired_key(name, buf_str(&text), text.len, m->desired.key);
	if (m->phase != MIG_REST &&
		(!strcmp(m->desired.key, m->tried.key) || !mig_attempt_interrupt(m))) {
		mig_attempt_recheck(m);
		return;
	}
	if (is_mig_attempt_due(m))
		begin_mig_attempt(m, name, &text, &err);
	else
		arm_mig_retry_timer(m);
}

void mig_on_probed(struct mig *m)
{
	if (!m->started)
		return;
	mig_attempt_on_probed(m);
	mig_sync(m);
}

/* The probe that SETTLE waits for is the first one of the new layout. */
static bool is_inventory_withheld(const struct mig *m)
{
	return m->attempt.masked && m->c.facts->node.inv &&
	       !(m->phase == MIG_SETTLE && m->n_probes + 1 >= m->attempt.n_probes_needed);
}

const struct inventory *mig_hide_changes(const struct mig *m, const struct inventory *seen,
	struct inventory **ret)
{
	struct error err = ERROR_INIT;

	if (!is_inventory_withheld(m))
		return seen;
	if (inventory_copy(ret, seen, &err) < 0 ||
		mig_mask_restore_masked(&m->attempt.mask, m->c.facts->node.inv, *ret, &err) <
			0) {
		log_warn("this look at the GPUs is not used", LOG_STR("reason", err.msg));
		return NULL;
	}
	return *ret;
}

void mig_apply_mask(const struct mig *m, struct inventory *inv)
{
	if (m->attempt.masked)
		mig_mask_apply(&m->attempt.mask, inv);
}

bool mig_settled(const struct mig *m)
{
	return !m->c.options.enabled || m->outcome.state != MIG_OUTCOME_NONE ||
	       m->desired.source == MIG_DESIRED_NONE;
}

bool mig_is_released(const struct mig *m)
{
	return m->attempt.released;
}

/* --- life --- */

static void on_mig_source_changed(void *arg)
{
	mig_sync(arg);
}

static const struct config_source_ops source_ops = { .changed = on_mig_source_changed };

static int find_tool(struct mig *m, struct error *err)
{
	static const char *const places[] = { TOOL_NAME, "../../tools/cli/" TOOL_NAME };
	const char *given = getenv(TOOL_ENV);
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (given && *given) {
		(void)snprintf(m->tool, sizeof(m->tool), "%s", given);
		return 0;
	}
	exe[len > 0 ? len : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
		if (path_join(m->tool, sizeof(m->tool), exe, places[i], err) < 0)
			return -1;
		if (access(m->tool, X_OK) == 0)
			return 0;
	}
	(void)snprintf(m->tool, sizeof(m->tool), "%s", TOOL_NAME); /* in PATH */
	return 0;
}

/* The agent watches the directory, so the file may appear later, or be a link of a volume. */
static int start_mig_config_file(struct mig *m, const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/'), *entry = slash ? slash + 1 : path;
	int len = slash ? (int)(slash - path) : 1;
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		len = (int)strlen(path);
		slash = path;
		entry = MIG_CONFIG_KEY;
	}
	if (len >= (int)sizeof(m->layouts.dir) || !config_entry_name_ok(entry))
		return error_set(err, ERR_INVALID,
			"--mig-config-file: expected the path of a file, found '%s'", path);
	(void)snprintf(m->layouts.dir, sizeof(m->layouts.dir), "%.*s", len > 0 ? len : 1,
		slash ? path : ".");
	(void)snprintf(m->layouts.entry, sizeof(m->layouts.entry), "%s", entry);
	return config_source_dir(&m->layouts.source, m->c.loop, m->layouts.dir, &source_ops, m,
		err);
}

static int start_source(struct mig *m, struct error *err)
{
	const struct mig_options *o = &m->c.options;

	if (*o->config_file && *o->config_map)
		return error_set(err, ERR_INVALID,
			"--mig-config-file and --mig-config-map: only one can be given");
	if (*o->config_file)
		return start_mig_config_file(m, o->config_file, err);
	if (!*o->config_map)
		return 0;
	if (config_map_name("mig-config-map", o->config_map, m->c.link->namespace_,
		    m->layouts.map_namespace, m->layouts.map, err) < 0)
		return -1;
	if (!*m->layouts.map_namespace)
		return error_set(err, ERR_INVALID,
			"--mig-config-map %s: the namespace of this pod is not known; give "
			"NAMESPACE/NAME or --namespace",
			o->config_map);
	return 0;
}

static int read_mig_services(const struct mig *m, struct strv *ret, struct error *err)
{
	const char *path = m->c.options.clients_file;

	if (*path && mig_services_load(ret, path, NULL, err) < 0)
		return error_prefix(err, "--mig-gpu-clients-file");
	return 0;
}

static void check_services(struct mig *m)
{
	CLEANUP(strv_fini) struct strv now = STRV_INIT;
	struct error why = ERROR_INIT;

	if (read_mig_services(m, &now, &why) < 0)
		error_suffix(&why, LAST_VALID "leave the MIG layout alone");
	report_component(m->c.reporter, COMPONENT_MIG_MANAGER, &why);
}

static int check_default(const char *name, struct error *err)
{
	if (strlen(name) < MIG_DESIRED_NAME_MAX &&
		name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789-_.+,")] == '\0' &&
		*name != '-')
		return 0;
	return error_set(err, ERR_INVALID,
		"--mig-config-default: expected the name of a MIG layout, found '%.80s'", name);
}

static const char *mig_option_or_empty(const char *text)
{
	return text ? text : "";
}

/* Tests set shorter limits. */
static uint64_t read_wait_option(const char *name, uint64_t usual_ns)
{
	const char *text = getenv(name);
	int64_t ns;

	return text && parse_duration(text, &ns) && ns > 0 ? (uint64_t)ns : usual_ns;
}

void mig_init(struct mig *m, const struct mig_context *context)
{
	struct mig_options *p = &m->c.options;

	*m = (struct mig){ .c = *context };
	p->default_name = mig_option_or_empty(p->default_name);
	p->config_file = mig_option_or_empty(p->config_file);
	p->config_map = mig_option_or_empty(p->config_map);
	p->hooks_file = mig_option_or_empty(p->hooks_file);
	p->clients_file = mig_option_or_empty(p->clients_file);
	p->state_file = mig_option_or_empty(p->state_file);
	p->reboot_command = mig_option_or_empty(p->reboot_command);
	p->host_root = mig_option_or_empty(p->host_root);
	p->operator_namespace = mig_option_or_empty(p->operator_namespace);
	m->silence_ns = read_wait_option(SILENCE_ENV, SILENCE_NS);
	m->clients_ns = read_wait_option(CLIENTS_ENV, CLIENTS_NS);
	m->phases = mig_phases;
	m->at_rest = mig_sync;
	(void)uv_timer_init(m->c.loop, &m->timer);
	m->timer.data = m;
	mig_node_init(m);
}

static int start_mig_manager(struct mig *m, struct error *err)
{
	if (check_default(m->c.options.default_name, err) < 0 || find_tool(m, err) < 0 ||
		mig_host_init(&m->host, m->c.loop, m->c.options.host_root, m->c.run_dir, err) <
			0)
		return -1;
	if (read_mig_services(m, &m->host.services, err) < 0 || start_source(m, err) < 0) {
		mig_host_fini(&m->host);
		return -1;
	}
	m->started = true;
	return 0;
}

void mig_start(struct mig *m)
{
	struct error err = ERROR_INIT;

	if (!m->c.options.enabled)
		return;
	(void)start_mig_manager(m, &err);
	report_component(m->c.reporter, COMPONENT_MIG_MANAGER, &err);
}

void mig_retry(struct mig *m)
{
	if (!m->c.options.enabled)
		return;
	if (m->started) {
		check_services(m);
		return;
	}
	mig_start(m);
	if (!m->started)
		return;
	if (m->c.link->api)
		mig_with_api(m, m->c.link->api);
	mig_sync(m);
}

void mig_with_api(struct mig *m, struct api *api)
{
	struct error err = ERROR_INIT;

	if (!m->started)
		return;
	mig_node_open(m);
	if (*m->layouts.map &&
		config_source_map(&m->layouts.source, api, m->layouts.map_namespace,
			m->layouts.map, &source_ops, m, &err) < 0)
		log_error("MIG layouts cannot be read", LOG_STR("reason", err.msg));
}

void mig_stop(struct mig *m)
{
	m->started = false;
	mig_attempt_stop(m);
	m->layouts.source = config_source_stop(m->layouts.source);
	mig_node_close(m);
	uv_close((uv_handle_t *)&m->timer, NULL);
}

void mig_fini(struct mig *m)
{
	mig_host_fini(&m->host);
	mig_report_fini(&m->report);
	mig_mask_fini(&m->attempt.mask);
	mig_basis_fini(&m->outcome.basis);
	buf_fini(&m->tried.text);
	strv_fini(&m->validators.pods);
}

/* --- status --- */

#define SET(object, key, value) (void)json_object_set_new((object), (key), (value))

static json_t *format_mig_text(const char *text)
{
	return text && *text ? json_any_text(text) : json_null();
}

static json_t *format_mig_wall_time(uint64_t wall_ns)
{
	char text[TIME_RFC3339_MAX];

	if (wall_ns == 0)
		return json_null();
	time_rfc3339(wall_ns, text);
	return json_any_text(text);
}

static json_t *format_mig_gpus_status(const struct mig_report *r)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < r->n; i++)
		(void)json_array_append_new(list,
			json_pack("{s:I, s:s, s:I, s:s, s:s}", "index",
				(json_int_t)r->gpus[i].index, "uuid", r->gpus[i].uuid, "steps",
				(json_int_t)r->gpus[i].steps, "result", r->gpus[i].result,
				"reason", r->gpus[i].reason));
	return list;
}

static json_t *retry_time(const struct mig *m)
{
	uint64_t now = time_mono_ns();

	if (m->phase != MIG_REST || has_applied(m) || !m->outcome.retry_at_ns)
		return json_null();
	return format_mig_wall_time(
		time_wall_ns() +
		(m->outcome.retry_at_ns > now ? m->outcome.retry_at_ns - now : 0));
}

static const char *source_text(const struct mig *m)
{
	if (m->layouts.source)
		return config_source_text(m->layouts.source);
	return *m->layouts.map ? m->layouts.map : "built-in";
}

json_t *mig_status(const struct mig *m)
{
	json_t *o = json_object();

	SET(o, "enabled", json_boolean(m->c.options.enabled));
	if (!m->c.options.enabled)
		return o;
	SET(o, "state", json_any_text(m->node.state));
	SET(o, "config", format_mig_text(m->tried.name));
	SET(o, "chosenBy",
		m->tried.by == MIG_DESIRED_LABEL     ? json_string("node label")
		: m->tried.by == MIG_DESIRED_DEFAULT ? json_string("default")
						     : json_null());
	SET(o, "source", json_any_text(source_text(m)));
	SET(o, "waiting", json_any_text(m->desired.waiting));
	SET(o, "phase", json_string(m->phases[m->phase].text));
	SET(o, "step", json_any_text(m->phase == MIG_APPLY ? m->report.current_step : ""));
	SET(o, "reason", json_any_text(m->node.reason));
	SET(o, "since", format_mig_wall_time(m->node.since_wall_ns));
	SET(o, "retry", retry_time(m));
	SET(o, "nvmlCalls", json_integer((json_int_t)m->report.nvml_calls));
	SET(o, "gpus", format_mig_gpus_status(&m->report));
	return o;
}

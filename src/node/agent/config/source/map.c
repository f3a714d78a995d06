/* SPDX-License-Identifier: Apache-2.0 */
/* A config source that is a ConfigMap of the API server (source.h). */
#include "node/agent/config/source/internal.h"

#include "lib/base/log.h"
#include "io/config/config.h"
#include "model/config/choice.h"

#include <string.h>

/* A ConfigMap that the API server reports. The last known content stays while the server is unavailable. */
struct map_source {
	struct config_source source;
	struct api_watch *watch;
	enum { MAP_UNKNOWN, MAP_ABSENT, MAP_PRESENT } state;
	json_t *data;       /* MAP_PRESENT: object of strings; NULL: no data */
	struct error error; /* why the server does not answer */
};

static int map_names(struct config_source *s, struct strv *names, struct error *err)
{
	struct map_source *m = (struct map_source *)s;
	const char *name;
	json_t *value;

	if (m->state == MAP_UNKNOWN) {
		(void)error_set(err, ERR_UNAVAILABLE, "%s: %s", s->text, m->error.msg);
		return CONFIG_SOURCE_WAIT;
	}
	if (m->state == MAP_ABSENT)
		return error_set(err, ERR_NOT_FOUND,
			"error getting list of configuration files: there is no %s", s->text);
	if (json_object_size(m->data) > CONFIG_ENTRIES_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %d entries", s->text,
			CONFIG_ENTRIES_MAX);
	json_object_foreach(m->data, name, value)
	{
		if (json_is_string(value) && config_entry_name_ok(name) &&
			strv_add(names, name, err) < 0)
			return -1;
	}
	strv_sort(names);
	return 0;
}

static int map_read(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	const struct map_source *m = (struct map_source *)s;
	const json_t *value = json_object_get(m->data, name);

	buf_add(text, json_string_value(value), json_string_length(value));
	if (!buf_ok(text))
		return error_set(err, ERR_LIMIT, "%s#%s: expected at most %u bytes, found %zu",
			s->text, name, CONFIG_FILE_MAX, json_string_length(value));
	return 0;
}

static void on_config_map_object(void *arg, json_t *object)
{
	struct map_source *m = arg;

	json_decref(m->data);
	m->data = json_incref(json_object_get(object, "data"));
	m->state = object ? MAP_PRESENT : MAP_ABSENT;
	config_source_changed(&m->source);
}

static void on_config_map_state(void *arg, const struct error *why)
{
	struct map_source *m = arg;

	/* Another part logs that the server is unavailable. A missing right concerns this ConfigMap alone. */
	if (why && why->code == ERR_PERMISSION && strcmp(why->msg, m->error.msg) != 0)
		log_warn("changes of the configs are not seen",
			LOG_STR("source", m->source.text), LOG_STR("reason", why->msg));
	error_clear(&m->error);
	error_copy(&m->error, why);
	/* When the server answers again, the object follows. */
	if (why && m->state == MAP_UNKNOWN)
		config_source_changed(&m->source);
}

static const struct error *get_config_map_error(const struct config_source *s)
{
	return &((const struct map_source *)s)->error;
}

static void check_config_map(struct config_source *s)
{
	config_source_changed(s);
}

static void map_stop(struct config_source *s)
{
	struct map_source *m = (struct map_source *)s;

	m->watch = api_watch_stop(m->watch);
	json_decref(m->data);
	free(m);
}

static const struct config_source_kind map_kind = {
	.names = map_names,
	.read = map_read,
	.check = check_config_map,
	.get_error = get_config_map_error,
	.stop = map_stop,
};

static const struct api_watch_ops watch_ops = { .object = on_config_map_object,
	.state = on_config_map_state };

int config_map_name(const char *option, const char *text, const char *own, char namespace_[64],
	char name[CONFIG_ENTRY_NAME_MAX], struct error *err)
{
	const char *slash = strchr(text, '/'), *last = slash ? slash + 1 : text;
	int len = slash ? (int)(slash - text) : (int)strlen(own);

	if ((slash && len == 0) || len >= 64 || !config_entry_name_ok(last))
		return error_set(err, ERR_INVALID,
			"--%s: expected NAME or NAMESPACE/NAME, found '%s'", option, text);
	(void)snprintf(namespace_, 64, "%.*s", len, slash ? text : own);
	(void)snprintf(name, CONFIG_ENTRY_NAME_MAX, "%s", last);
	return 0;
}

int config_source_map(struct config_source **ret, struct api *api, const char *namespace_,
	const char *name, const struct config_source_ops *ops, void *arg, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1024);
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	struct map_source *m = calloc(1, sizeof(*m));

	buf_printf(&text, "configmap %s/%s", namespace_, name);
	buf_puts(&path, "/api/v1/namespaces/");
	api_escape(&path, namespace_);
	buf_puts(&path, "/configmaps");
	if (!m || !buf_ok(&text) || !buf_ok(&path)) {
		free(m);
		return error_nomem(err);
	}
	(void)error_set(&m->error, ERR_UNAVAILABLE, "the API server has not answered yet");
	if (config_source_init(&m->source, &map_kind, ops, arg, buf_str(&text), err) < 0) {
		free(m);
		return -1;
	}
	if (api_watch_start(&m->watch, api, buf_str(&path), name, &watch_ops, m, err) < 0) {
		free(m->source.text);
		free(m);
		return -1;
	}
	*ret = &m->source;
	return 0;
}

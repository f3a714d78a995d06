/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/node-labels.h"

#include "lib/base/buf.h"

#include <stdio.h>
#include <string.h>

#define OLD_MAX 4096

static const char *const clients[MIG_CLIENTS_MAX] = {
	"nvidia.com/gpu.deploy.device-plugin",
	"nvidia.com/gpu.deploy.gpu-feature-discovery",
	"nvidia.com/gpu.deploy.dcgm-exporter",
	"nvidia.com/gpu.deploy.dcgm",
	"nvidia.com/gpu.deploy.nvsm",
	"nvidia.com/gpu.deploy.client",
};

static const char *const validators[] = {
	"nvidia-operator-validator",
	"nvidia-cuda-validator",
	"nvidia-device-plugin-validator",
};

static const char *get_mig_label(const json_t *labels, const char *key)
{
	return json_string_value(json_object_get(labels, key));
}

static bool is_paused(const json_t *labels, const char *key)
{
	const char *v = get_mig_label(labels, key);

	return v && !strcmp(v, MIG_PAUSED);
}

static bool is_own(const char *const *own, const char *key)
{
	for (; own && *own; own++) {
		if (!strcmp(*own, key))
			return true;
	}
	return false;
}

static bool can_be_paused(const json_t *labels, const char *const *own, const char *key)
{
	const char *v = get_mig_label(labels, key);

	return v && *v && strcmp(v, "false") != 0 && strcmp(v, MIG_PAUSED) != 0 &&
	       !is_own(own, key);
}

bool mig_clients_any(const json_t *labels, const char *const *own)
{
	for (size_t i = 0; i < MIG_CLIENTS_MAX; i++) {
		if (can_be_paused(labels, own, clients[i]) || is_paused(labels, clients[i]))
			return true;
	}
	return false;
}

/* --- the patch --- */

static bool is_mig_node_label_changed(const char *want, const char *now)
{
	return want && strcmp(want, now ? now : "") != 0;
}

static int set_mig_node_label(json_t *o, const char *key, const char *want, struct error *err)
{
	json_t *v = !want || !*want ? json_null() : json_string(want);

	return json_object_set_new(o, key, v) < 0 ? error_nomem(err) : 0;
}

/* The text of @key in "key=value,key=value"; "true" if @key is missing. */
static void old_value(const char *old, const char *key, char *ret, size_t cap)
{
	size_t len = strlen(key);

	(void)snprintf(ret, cap, "true");
	while (old && *old) {
		size_t part = strcspn(old, ",");

		if (part > len + 1 && !strncmp(old, key, len) && old[len] == '=') {
			(void)snprintf(ret, cap, "%.*s", (int)(part - len - 1), old + len + 1);
			return;
		}
		old += part + (old[part] == ',');
	}
}

static int pause_clients(json_t *labels, json_t *annotations,
	const struct mig_node_labels *desired, const struct mig_node_labels_actual *now,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf old = BUF_INIT(OLD_MAX);

	if (now->old_paused)
		buf_puts(&old, now->old_paused);
	for (size_t i = 0; i < MIG_CLIENTS_MAX; i++) {
		const char *v = get_mig_label(now->labels, clients[i]);

		if (!can_be_paused(now->labels, desired->own, clients[i]))
			continue;
		if (set_mig_node_label(labels, clients[i], MIG_PAUSED, err) < 0)
			return -1;
		if (strcmp(v, "true") != 0)
			buf_printf(&old, "%s%s=%s", old.len ? "," : "", clients[i], v);
	}
	/* If the annotation becomes too long, the value becomes "true" afterwards, as with NVIDIA's manager. */
	if (buf_ok(&old) && is_mig_node_label_changed(buf_str(&old), now->old_paused))
		return set_mig_node_label(annotations, MIG_PAUSED_OLD, buf_str(&old), err);
	return 0;
}

static int run_clients(json_t *labels, json_t *annotations,
	const struct mig_node_labels_actual *now, struct error *err)
{
	char v[64];

	for (size_t i = 0; i < MIG_CLIENTS_MAX; i++) {
		if (!is_paused(now->labels, clients[i]))
			continue;
		old_value(now->old_paused, clients[i], v, sizeof(v));
		if (set_mig_node_label(labels, clients[i], v, err) < 0)
			return -1;
	}
	return is_mig_node_label_changed("", now->old_paused)
		       ? set_mig_node_label(annotations, MIG_PAUSED_OLD, "", err)
		       : 0;
}

static int fill_mig_node_labels_patch(json_t *labels, json_t *annotations,
	const struct mig_node_labels *desired, const struct mig_node_labels_actual *now,
	struct error *err)
{
	/*
	 * State and reason go together, because @now may be older than the Node. Otherwise the Node would show a
	 * state with another state's reason for a moment.
	 */
	if (is_mig_node_label_changed(desired->state,
		    get_mig_label(now->labels, MIG_STATE_LABEL)) ||
		is_mig_node_label_changed(desired->reason, now->reason)) {
		if (desired->state &&
			set_mig_node_label(labels, MIG_STATE_LABEL, desired->state, err) < 0)
			return -1;
		if (desired->reason &&
			set_mig_node_label(annotations, MIG_REASON, desired->reason, err) < 0)
			return -1;
	}
	if (is_mig_node_label_changed(desired->rebooted, now->rebooted) &&
		set_mig_node_label(annotations, MIG_REBOOTED, desired->rebooted, err) < 0)
		return -1;
	if (desired->clients == MIG_CLIENTS_PAUSE)
		return pause_clients(labels, annotations, desired, now, err);
	if (desired->clients == MIG_CLIENTS_RUN)
		return run_clients(labels, annotations, now, err);
	return 0;
}

int mig_node_labels_patch(json_t **ret, const struct mig_node_labels *desired,
	const struct mig_node_labels_actual *now, struct error *err)
{
	json_t *labels = json_object(), *annotations = json_object(), *metadata = json_object();
	int r = labels && annotations && metadata
			? fill_mig_node_labels_patch(labels, annotations, desired, now, err)
			: error_nomem(err);

	*ret = NULL;
	if (r == 0 && json_object_size(labels) > 0)
		r = json_object_set(metadata, "labels", labels);
	if (r == 0 && json_object_size(annotations) > 0)
		r = json_object_set(metadata, "annotations", annotations);
	if (r == 0 && json_object_size(metadata) > 0) {
		*ret = json_pack("{s:O}", "metadata", metadata);
		r = *ret ? 0 : error_nomem(err);
	}
	json_decref(labels);
	json_decref(annotations);
	json_decref(metadata);
	return r;
}

/* --- pods --- */

static const char *get_mig_pod_metadata(const json_t *pod, const char *key)
{
	return get_mig_label(json_object_get(pod, "metadata"), key);
}

static const json_t *get_mig_pod_node_selector(const json_t *pod)
{
	return json_object_get(json_object_get(pod, "spec"), "nodeSelector");
}

static bool has_mig_pod_ended(const json_t *pod)
{
	const char *phase = get_mig_label(json_object_get(pod, "status"), "phase");

	return phase && (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed"));
}

bool mig_clients_wait(const json_t *labels, const json_t *items, char *ret, size_t cap)
{
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *pod = json_array_get(items, i);
		const char *name = get_mig_pod_metadata(pod, "name"),
			   *namespace_ = get_mig_pod_metadata(pod, "namespace");

		for (size_t k = 0; k < MIG_CLIENTS_MAX && !has_mig_pod_ended(pod); k++) {
			if (!is_paused(labels, clients[k]) ||
				!json_object_get(get_mig_pod_node_selector(pod), clients[k]))
				continue;
			(void)snprintf(ret, cap, "%s/%s", namespace_ ? namespace_ : "",
				name ? name : "");
			return true;
		}
	}
	return false;
}

void mig_clients_own(const json_t *items, const char *namespace_, const char *name,
	const char *ret[MIG_CLIENTS_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(items) && n == 0; i++) {
		const json_t *pod = json_array_get(items, i);
		const char *a = get_mig_pod_metadata(pod, "namespace"),
			   *b = get_mig_pod_metadata(pod, "name");

		if (!a || !b || strcmp(a, namespace_) != 0 || strcmp(b, name) != 0)
			continue;
		for (size_t k = 0; k < MIG_CLIENTS_MAX; k++) {
			if (json_object_get(get_mig_pod_node_selector(pod), clients[k]))
				ret[n++] = clients[k];
		}
	}
	ret[n] = NULL;
}

bool mig_validator(const json_t *pod)
{
	const char *app = get_mig_label(
		json_object_get(json_object_get(pod, "metadata"), "labels"), "app");

	for (size_t i = 0; app && i < ARRAY_LEN(validators); i++) {
		if (!strcmp(app, validators[i]))
			return true;
	}
	return false;
}

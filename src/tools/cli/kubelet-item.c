/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/kubelet-item.h"

#include "lib/base/time.h"
#include "lib/report/table.h"

#include <stdlib.h>
#include <string.h>

/* --- fields --- */

const char *kubelet_item_text(json_t *o, const char *a, const char *b)
{
	json_t *v = json_object_get(o, a);
	const char *text;

	if (b)
		v = json_object_get(v, b);
	text = json_string_value(v);
	return text ? text : "";
}

long long kubelet_item_number(json_t *o, const char *a, const char *b)
{
	json_t *v = json_object_get(o, a);

	return (long long)json_integer_value(b ? json_object_get(v, b) : v);
}

/* @ns in whole seconds, as kubectl prints ages. */
static const char *format_age_text(long long ns, char *text)
{
	time_age((uint64_t)ns / NS_PER_SEC * NS_PER_SEC, text);
	return ns < (long long)NS_PER_SEC ? "0s" : text;
}

const char *kubelet_item_age(json_t *o, char *text)
{
	return format_age_text(kubelet_item_number(o, "gpuslice", "ageNs"), text);
}

bool kubelet_node_is_ready(json_t *node)
{
	json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");

	return strcmp(kubelet_item_text(json_array_get(conditions, 0), "status", NULL),
		       "True") == 0;
}

/* --- describe --- */

static void describe_map(json_t *map, const char *label, struct buf *b)
{
	const char *key, *head = label;
	json_t *v;

	if (json_object_size(map) == 0)
		buf_printf(b, "%-16s<none>\n", label);
	json_object_foreach(map, key, v)
	{
		buf_printf(b, "%-16s%s=%s\n", head, key, json_string_value(v));
		head = "";
	}
}

static void describe_grant(json_t *g, struct buf *b)
{
	json_t *v;
	const char *key;
	size_t i;

	buf_printf(b, "    %s:\n", kubelet_item_text(g, "resource", NULL));
	json_array_foreach(json_object_get(g, "ids"), i, v)
		buf_printf(b, "      %-14s%s\n", i ? "" : "Devices:", json_string_value(v));
	i = 0;
	json_object_foreach(json_object_get(g, "envs"), key, v) buf_printf(b,
		"      %-14s%s=%s\n", i++ ? "" : "Environment:", key, json_string_value(v));
	json_array_foreach(json_object_get(g, "mounts"), i, v)
		buf_printf(b, "      %-14s%s from %s (%s)\n",
			i ? "" : "Mounts:", kubelet_item_text(v, "containerPath", NULL),
			kubelet_item_text(v, "hostPath", NULL),
			json_is_true(json_object_get(v, "readOnly")) ? "ro" : "rw");
	json_array_foreach(json_object_get(g, "devices"), i, v)
		buf_printf(b, "      %-14s%s from %s (%s)\n",
			i ? "" : "Device nodes:", kubelet_item_text(v, "containerPath", NULL),
			kubelet_item_text(v, "hostPath", NULL),
			kubelet_item_text(v, "permissions", NULL));
	i = 0;
	json_object_foreach(json_object_get(g, "annotations"), key, v) buf_printf(b,
		"      %-14s%s=%s\n", i++ ? "" : "Annotations:", key, json_string_value(v));
	json_array_foreach(json_object_get(g, "cdiDevices"), i, v)
		buf_printf(b, "      %-14s%s\n", i ? "" : "CDI devices:", json_string_value(v));
}

static void describe_containers(json_t *pod, const char *list, const char *head, struct buf *b)
{
	json_t *own = json_object_get(pod, "gpuslice"), *c, *v, *g;
	const char *key;
	size_t i, k = 0;

	json_array_foreach(json_object_get(json_object_get(pod, "spec"), list), i, c)
	{
		buf_printf(b, "%s  %s:\n    Image:        %s\n", i ? "" : head,
			kubelet_item_text(c, "name", NULL),
			kubelet_item_text(c, "image", NULL));
		k = 0;
		json_object_foreach(json_object_get(json_object_get(c, "resources"), "limits"),
			key, v) buf_printf(b, "    %-14s%s: %s\n", k++ ? "" : "Limits:", key,
			json_string_value(v));
		json_array_foreach(json_object_get(own, "grants"), k, g)
		{
			if (strcmp(kubelet_item_text(g, "container", NULL),
				    kubelet_item_text(c, "name", NULL)) == 0)
				describe_grant(g, b);
		}
	}
}

static void describe_events(json_t *pod, struct buf *b)
{
	static const char *const heads[] = { "  Type", "Reason", "Age", "From", "Message",
		NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	char age[TIME_AGE_MAX];
	json_t *e;
	size_t i;

	table_init(&t, heads);
	json_array_foreach(json_object_get(json_object_get(pod, "gpuslice"), "events"), i, e)
	{
		table_addf(&t, "  %s", kubelet_item_text(e, "type", NULL));
		table_add(&t, kubelet_item_text(e, "reason", NULL));
		if (kubelet_item_number(e, "count", NULL) > 1)
			table_addf(&t, "%s (x%lld)",
				format_age_text(kubelet_item_number(e, "ageNs", NULL), age),
				kubelet_item_number(e, "count", NULL));
		else
			table_add(&t,
				format_age_text(kubelet_item_number(e, "ageNs", NULL), age));
		table_add(&t, kubelet_item_text(e, "from", NULL));
		table_add(&t, kubelet_item_text(e, "message", NULL));
	}
	if (!table_has_rows(&t)) {
		buf_puts(b, "Events:         <none>\n");
		return;
	}
	buf_puts(b, "Events:\n");
	table_print(&t, b);
}

void kubelet_describe_pod(json_t *p, struct buf *b)
{
	json_t *conditions = json_object_get(json_object_get(p, "status"), "conditions");
	const char *node = kubelet_item_text(p, "spec", "nodeName");

	buf_printf(b, "%-16s%s\n", "Name:", kubelet_item_text(p, "metadata", "name"));
	buf_printf(b, "%-16s%s\n", "Namespace:", kubelet_item_text(p, "metadata", "namespace"));
	buf_printf(b, "%-16s%s\n", "UID:", kubelet_item_text(p, "metadata", "uid"));
	buf_printf(b, "%-16s%s\n", "Node:", *node ? node : "<none>");
	describe_map(json_object_get(json_object_get(p, "metadata"), "labels"), "Labels:", b);
	buf_printf(b, "%-16s%s\n", "Status:", kubelet_item_text(p, "status", "phase"));
	if (*kubelet_item_text(p, "status", "reason"))
		buf_printf(b, "%-16s%s\n%-16s%s\n",
			"Reason:", kubelet_item_text(p, "status", "reason"),
			"Message:", kubelet_item_text(p, "status", "message"));
	if (json_array_size(conditions) > 0)
		buf_printf(b, "%-16s%s\n", "Waiting for:",
			kubelet_item_text(json_array_get(conditions, 0), "message", NULL));
	describe_containers(p, "initContainers", "Init Containers:\n", b);
	describe_containers(p, "containers", "Containers:\n", b);
	describe_events(p, b);
}

void kubelet_describe_node(json_t *n, struct buf *b)
{
	json_t *status = json_object_get(n, "status"), *t;
	size_t i;

	buf_printf(b, "%-16s%s\n", "Name:", kubelet_item_text(n, "metadata", "name"));
	describe_map(json_object_get(json_object_get(n, "metadata"), "labels"), "Labels:", b);
	json_array_foreach(json_object_get(json_object_get(n, "spec"), "taints"), i,
		t) buf_printf(b, "%-16s%s=%s:%s\n",
		i ? "" : "Taints:", kubelet_item_text(t, "key", NULL),
		kubelet_item_text(t, "value", NULL), kubelet_item_text(t, "effect", NULL));
	buf_printf(b, "%-16s%s\n", "Ready:", kubelet_node_is_ready(n) ? "True" : "Unknown");
	describe_map(json_object_get(status, "capacity"), "Capacity:", b);
	describe_map(json_object_get(status, "allocatable"), "Allocatable:", b);
}

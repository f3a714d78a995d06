/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/host.h"
#include "node/agent/mig/node-labels.h"
#include "node/agent/mig/mask.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_report(const struct mig_report *r)
{
	if (r->n > GPU_NODE_MAX)
		abort();
	for (uint32_t i = 0; i < r->n; i++) {
		const struct mig_report_gpu *g = &r->gpus[i];

		/* A GPU without a UUID is not planned. */
		if (g->n_remaining > MIG_REMAINING_MAX || (g->steps && !*g->uuid) ||
			mig_report_has(r, g->uuid) != (*g->uuid != '\0'))
			abort();
	}
}

static void read_report_text(const char *text, size_t len)
{
	struct mig_report r = { 0 };
	const char *end = text + len;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t part = (size_t)((nl ? nl : end) - text);

		if (mig_report_line(&r, text, part, NULL) < 0)
			break;
		check_report(&r);
		text += part + (nl != NULL);
	}
	mig_report_fini(&r);
}

/* Reads the text as labels and as pods of the API server. */
static void read_node_text(const char *text, size_t len)
{
	json_t *o = json_loadb(text, len, 0, NULL), *patch = NULL;
	const struct mig_node_labels_actual now = { .labels = json_object_get(o, "labels"),
		.reason = json_string_value(json_object_get(o, "reason")),
		.old_paused = json_string_value(json_object_get(o, "old")) };
	const char *own[MIG_CLIENTS_MAX + 1];
	char name[64];

	for (int i = MIG_CLIENTS_UNCHANGED; i <= MIG_CLIENTS_RUN; i++) {
		const struct mig_node_labels desired = { .state = "x",
			.clients = (enum mig_clients)i };

		if (mig_node_labels_patch(&patch, &desired, &now, NULL) == 0)
			json_decref(patch);
	}
	(void)mig_clients_wait(now.labels, json_object_get(o, "items"), name, sizeof(name));
	mig_clients_own(json_object_get(o, "items"), "a", "b", own);
	json_decref(o);
}

/* Output of the tool for the MIG manager, and of the API server. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	CLEANUP(freep) char *text = malloc(len + 1);

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = '\0';
	read_report_text(text, len);
	read_node_text(text, len);
	return 0;
}

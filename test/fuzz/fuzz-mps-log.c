/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/clients.h"
#include "node/agent/mps/command.h"
#include "node/agent/mps/log.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void on_event(void *arg, const struct mps_log_event *e)
{
	(void)arg;
	if (e->kind == MPS_LOG_COMPLAINT ? !e->text : e->kind != MPS_LOG_FAULT && e->pid == 0)
		abort();
	if (e->pid > INT32_MAX)
		abort();
}

/* Reads the log and the answers of an MPS daemon, and what its clients have in /proc, in pieces of every
 * size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	CLEANUP(freep) char *text = malloc(len + 1);
	uint32_t pids[8];
	struct mps_log l;
	size_t piece = len ? data[0] % 61 + 1 : 1;

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = '\0';
	mps_log_init(&l);
	for (size_t at = 0; at < len; at += piece)
		mps_log_feed(&l, text + at, len - at < piece ? len - at : piece, on_event,
			NULL);
	mps_log_fini(&l);
	if (mps_pids_read(pids, 8, text) > 8)
		abort();
	(void)mps_environ_find(text, len, "A");
	return 0;
}

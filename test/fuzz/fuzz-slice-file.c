/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/file.h"
#include "node/agent/slices/checkpoint.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The file reads back as it was written, and names that lead to files are plain. */
static void check_slice_file(const struct slice_file *f)
{
	CLEANUP(freep) char *text = slice_file_text(f);
	struct slice_file again;

	if (!slice_id_ok(f->id) || (*f->lib && !slice_lib_name_ok(f->lib)) || f->plan.n == 0 ||
		f->plan.n > SLICE_GPUS_MAX || !text)
		abort();
	if (slice_file_parse(&again, text, strlen(text), NULL) < 0)
		abort();
	if (strcmp(again.id, f->id) != 0 || strcmp(again.lib, f->lib) != 0 ||
		!slice_plan_equal(&again.plan, &f->plan) ||
		!strv_equal(&again.devices, &f->devices))
		abort();
	slice_file_fini(&again);
}

/* slice.json, and the kubelet's checkpoint of its device manager. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(strv_fini) struct strv ids = STRV_INIT;
	struct slice_file f;

	if (slice_file_parse(&f, (const char *)data, size, NULL) == 0) {
		check_slice_file(&f);
		slice_file_fini(&f);
	}
	if (slice_checkpoint_ids(&ids, (const char *)data, size, NULL) == 0) {
		for (size_t i = 0; i < ids.n; i++)
			if (!slice_id_ok(ids.v[i]))
				abort();
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/cuda/note.h"

#include <string.h>

const char *cuda_step_name(unsigned step)
{
	static const char *const names[CUDA_STEP_COUNT_] = { [CUDA_STEP_OPEN] =
								     "open of libcuda.so.1",
#define X(name, params) [CUDA_STEP_##name] = #name,
		CUDA_CALLS(X)
#undef X
	};

	return step < CUDA_STEP_COUNT_ ? names[step] : "?";
}

static bool is_note_text_terminated(const char *text, size_t cap)
{
	return memchr(text, '\0', cap) != NULL;
}

int cuda_note_check(const struct cuda_note *n, size_t len, struct error *err)
{
	if (len != sizeof(*n) || n->magic != CUDA_NOTE_MAGIC || n->size != sizeof(*n))
		return error_set(err, ERR_INVALID, "the CUDA process sent %zu unknown bytes",
			len);
	if (n->type == 0 || n->type >= CUDA_NOTE_TYPE_COUNT_ || n->step >= CUDA_STEP_COUNT_ ||
		n->device >= CUDA_DEVICES_MAX || n->value < CUDA_NOTE_WRONG_SUM ||
		(n->type == CUDA_NOTE_COUNT && (n->value < 0 || n->value > CUDA_DEVICES_MAX)))
		return error_set(err, ERR_INVALID,
			"the CUDA process sent a number that is out of range");
	if (!is_note_text_terminated(n->uuid, sizeof(n->uuid)) ||
		!is_note_text_terminated(n->bus_id, sizeof(n->bus_id)) ||
		!is_note_text_terminated(n->name, sizeof(n->name)) ||
		!is_note_text_terminated(n->text, sizeof(n->text)))
		return error_set(err, ERR_INVALID,
			"the CUDA process sent a text that does not end");
	return 0;
}

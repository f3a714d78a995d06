/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "tools/validate/cdi/spec.h"
#include "tools/validate/cuda/internal.h"
#include "tools/validate/driver/internal.h"
#include "tools/validate/plugin/resources.h"

#define TEXT_MAX (64 * 1024)

static struct offers offers;

static void check_text(const char *text)
{
	if (strpbrk(text, "\n\r\x1b"))
		__builtin_trap();
}

/* What `gpuslice validate` reads of others: CDI specs, the agent's status, the CUDA process, the
 * flags of the driver container. One input is tried as each of them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct cdi_spec spec = { .kind = "" };
	static char text[TEXT_MAX + 1];
	struct cuda_note note;

	if (size > TEXT_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (cdi_spec_read(&spec, "spec", text, size, &err) == 0)
		cdi_spec_fini(&spec);
	if (offers_read_status(&offers, text, size, &err) == 0) {
		for (size_t i = 0; i < offers.n; i++)
			check_text(offers.v[i].name);
	}
	(void)driver_flag(text, "GDS_ENABLED");
	memset(&note, 0, sizeof(note));
	memcpy(&note, data, size < sizeof(note) ? size : sizeof(note));
	if (cuda_note_check(&note, size, &err) == 0 &&
		(strlen(note.text) >= sizeof(note.text) || !cuda_step_name(note.step)[0]))
		__builtin_trap();
	return 0;
}

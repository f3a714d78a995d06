/* SPDX-License-Identifier: Apache-2.0 */
#include "model/gpu/sample.h"

#include <string.h>

int sample_new(struct sample **ret, uint32_t n, struct error *err)
{
	CLEANUP(sample_freep) struct sample *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->devices = calloc(n ? n : 1, sizeof(*s->devices));
	if (!s->devices)
		return error_nomem(err);
	s->n = n;
	for (uint32_t i = 0; i < n; i++)
		s->devices[i].gi = s->devices[i].ci = GPU_NO_INSTANCE;
	*ret = STEAL_PTR(s);
	return 0;
}

struct sample *sample_free(struct sample *s)
{
	if (!s)
		return NULL;
	for (uint32_t i = 0; s->devices && i < s->n; i++) {
		free(s->devices[i].values);
		free(s->devices[i].texts);
		free(s->devices[i].processes);
	}
	free(s->devices);
	free(s);
	return NULL;
}

const struct sample_device *sample_find(const struct sample *s, const char *uuid)
{
	for (uint32_t i = 0; s && i < s->n; i++)
		if (!strcmp(s->devices[i].uuid, uuid))
			return &s->devices[i];
	return NULL;
}

const struct sample_value *sample_value(const struct sample_device *device, uint16_t field)
{
	for (uint32_t i = 0; i < device->n_values; i++)
		if (device->values[i].field == field)
			return &device->values[i];
	return NULL;
}

const char *sample_text(const struct sample_device *device, uint16_t field)
{
	for (uint32_t i = 0; i < device->n_texts; i++)
		if (device->texts[i].field == field)
			return device->texts[i].text;
	return NULL;
}

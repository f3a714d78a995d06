/* SPDX-License-Identifier: Apache-2.0 */
/* The names of CDI classes and devices, and the end of a struct cdi_found (cdi.h). cdi_search() fills it. */
#include "io/cdi/search/search.h"

#include <stdio.h>
#include <string.h>

static const char *const class_names[CDI_CLASSES] = {
	[CDI_GPU] = "gpu",
	[CDI_IMEX_CHANNEL] = "imex-channel",
	[CDI_GDRCOPY] = "gdrcopy",
	[CDI_GDS] = "gds",
	[CDI_MOFED] = "mofed",
};

const char *cdi_class_name(enum cdi_class class_)
{
	return class_names[class_];
}

bool cdi_class_find(const char *name, enum cdi_class *ret)
{
	for (size_t i = 0; i < CDI_CLASSES; i++) {
		if (!strcmp(class_names[i], name)) {
			*ret = (enum cdi_class)i;
			return true;
		}
	}
	return false;
}

static bool letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool cdi_device_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len >= CDI_NAME_MAX || !letter_or_digit(name[0]) ||
		!letter_or_digit(name[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!letter_or_digit(name[i]) && !strchr("_-.:", name[i]))
			return false;
	return true;
}

static void edits_fini(struct cdi_edits *e)
{
	for (size_t i = 0; i < e->n_nodes; i++)
		free(e->nodes[i].path);
	for (size_t i = 0; i < e->n_files; i++) {
		free(e->files[i].path);
		free(e->files[i].real);
	}
	strv_fini(&e->links);
	free(e->nodes);
	free(e->files);
}

struct cdi_found *cdi_found_free(struct cdi_found *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < f->n_libraries; i++) {
		free(f->libraries[i].dir);
		free(f->libraries[i].sub);
		free(f->libraries[i].name);
		free(f->libraries[i].real);
		strv_fini(&f->libraries[i].names);
	}
	free(f->libraries);
	edits_fini(&f->common);
	for (size_t c = 0; c < CDI_CLASSES; c++) {
		for (size_t i = 0; i < f->n_devices[c]; i++)
			edits_fini(&f->devices[c][i].edits);
		free(f->devices[c]);
	}
	strv_fini(&f->watched);
	free(f->driver_root);
	free(f);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CDI, which replaces the toolkit. A spec must exist in a directory that the runtime reads, and must
 * name the node's GPUs. A spec from before a GPU was exchanged names the old GPU. Every container that
 * requests that GPU fails to start.
 */
#include "tools/validate/internal.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fd.h"
#include "tools/validate/cdi/spec.h"

#define SPECS_MAX 64

static const char *const default_dirs[] = { "/etc/cdi", "/var/run/cdi", NULL };

struct cdi_scan {
	struct strv names; /* names of the devices of all specs */
	unsigned specs;
	struct error err; /* first error of a spec */
};

static bool has_ending(const char *name, const char *ending)
{
	size_t len = strlen(name), n = strlen(ending);

	return len > n && strcmp(name + len - n, ending) == 0;
}

/* Specs of all vendors are in these directories. A malformed spec of another vendor does not matter
 * here. */
static bool may_be_ours(const char *name)
{
	return (has_ending(name, ".json") || has_ending(name, ".yaml")) &&
	       (strstr(name, "nvidia") || strstr(name, "gpuslice"));
}

static int add_found_spec(struct cdi_scan *f, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CDI_SPEC_MAX);
	CLEANUP(cdi_spec_fini) struct cdi_spec spec = { .kind = "" };

	if (file_read(path, &text, err) < 0 ||
		cdi_spec_read(&spec, path, buf_str(&text), text.len, err) < 0)
		return -1;
	if (!strstr(spec.kind, "nvidia.com/"))
		return 0;
	f->specs++;
	for (size_t i = 0; i < spec.devices.n; i++) {
		if (strv_add(&f->names, spec.devices.v[i], err) < 0)
			return -1;
	}
	return 0;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static void read_cdi_spec_dir(struct cdi_scan *f, const char *dir)
{
	CLEANUP(closedirp) DIR *d = opendir(dir);
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	struct dirent *e;

	while (d && f->specs < SPECS_MAX && (e = readdir(d)) != NULL) {
		if (!may_be_ours(e->d_name))
			continue;
		if (path_join(path, sizeof(path), dir, e->d_name, &err) < 0 ||
			add_found_spec(f, path, &err) < 0) {
			if (f->err.code == ERR_NONE)
				error_copy(&f->err, &err);
		}
	}
}

static void read_cdi_spec_dirs(struct cdi_scan *f, const struct validate_settings *s)
{
	for (size_t i = 0; i < s->cdi_dirs.n; i++)
		read_cdi_spec_dir(f, s->cdi_dirs.v[i]);
	for (size_t i = 0; s->cdi_dirs.n == 0 && default_dirs[i]; i++)
		read_cdi_spec_dir(f, default_dirs[i]);
}

bool validate_cdi_has_spec(const struct validate_settings *s)
{
	struct cdi_scan f = { .err = ERROR_INIT };
	bool any;

	read_cdi_spec_dirs(&f, s);
	any = f.specs > 0 || f.err.code != ERR_NONE;
	strv_fini(&f.names);
	return any;
}

static void dirs_text(const struct validate_settings *s, char *ret, size_t cap)
{
	size_t len = 0;
	int n;

	ret[0] = '\0';
	for (size_t i = 0; i < (s->cdi_dirs.n ? s->cdi_dirs.n : 2) && len < cap; i++) {
		n = snprintf(ret + len, cap - len, "%s%s", i ? ", " : "",
			s->cdi_dirs.n ? s->cdi_dirs.v[i] : default_dirs[i]);
		len += n > 0 ? (size_t)n : 0;
	}
}

static void report_missing_device(struct validate_report *r, struct validate_item *item,
	const char *kind, const char *index, const char *uuid)
{
	if (item) {
		item->result = VALIDATE_FAIL;
		item->code = VALIDATE_CODE_SPEC_STALE;
		(void)snprintf(item->text, sizeof(item->text), "no CDI spec names it");
	}
	report_set(r, VALIDATE_FAIL, VALIDATE_CODE_SPEC_STALE, "no CDI spec names %s %s (%s)",
		kind, index, uuid);
}

/* A MIG device with a field that NVML could not read: specs leave it out, so that is no failure. */
static void check_cdi_mig_device(const struct cdi_scan *f, const struct gpu *g,
	const struct gpu_mig *m, struct validate_report *r)
{
	struct validate_item *item = report_item(r, m->uuid[0] ? m->uuid : "MIG device");
	char index[32];

	(void)snprintf(index, sizeof(index), "%u:%u", (unsigned)g->index, (unsigned)m->index);
	if (item)
		(void)snprintf(item->detail, sizeof(item->detail), "%s %s", index, m->profile);
	if (m->reason[0]) {
		if (item) {
			item->result = VALIDATE_CONDITION;
			item->code = VALIDATE_CODE_UNHEALTHY;
			report_text(item->text, sizeof(item->text), m->reason);
		}
		if (r->result != VALIDATE_FAIL)
			report_set(r, VALIDATE_CONDITION, VALIDATE_CODE_UNHEALTHY,
				"MIG device %s cannot be given: %s", index, m->reason);
	} else if (!strv_has(&f->names, m->uuid) && !strv_has(&f->names, index)) {
		report_missing_device(r, item, "MIG device", index, m->uuid);
	}
}

/* Specs name devices by UUID or index. A GPU in MIG mode is present as its MIG devices. */
static void check_cdi_devices(const struct cdi_scan *f, const struct inventory *inv,
	struct validate_report *r)
{
	for (uint32_t i = 0; i < inv->n && i < r->n_items; i++) {
		const struct gpu *g = &inv->gpus[i];
		char index[16];

		(void)snprintf(index, sizeof(index), "%u", (unsigned)g->index);
		if (!g->mig_enabled && !strv_has(&f->names, g->uuid) &&
			!strv_has(&f->names, index))
			report_missing_device(r, &r->items[i], "GPU", index, g->uuid);
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];

		if (m->gpu < inv->n && inv->gpus[m->gpu].mig_enabled)
			check_cdi_mig_device(f, &inv->gpus[m->gpu], m, r);
	}
	if (r->result == VALIDATE_PASS)
		report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK,
			"%u CDI spec%s with %zu devices, and every GPU%s is named", f->specs,
			f->specs == 1 ? "" : "s", f->names.n,
			inv->n_mig > 0 ? " and MIG device" : "");
}

void validate_cdi(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct cdi_scan f = { .err = ERROR_INIT };
	char dirs[256];

	read_cdi_spec_dirs(&f, s);
	dirs_text(s, dirs, sizeof(dirs));
	if (f.err.code != ERR_NONE)
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_SPEC_BAD, "%s", f.err.msg);
	else if (f.specs == 0)
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NO_SPEC,
			"no CDI spec of NVIDIA GPUs in %s", dirs);
	else if (report_gpus(r, s, or_default(s->host_ctr, "/"), &inv) == 0)
		check_cdi_devices(&f, inv, r);
	strv_fini(&f.names);
}

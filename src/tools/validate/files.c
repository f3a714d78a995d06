/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/validate/files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/base/fd.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#define FILE_MODE     0644
#define DIR_MODE      0755
#define JSON_FILE_MAX (1024 * 1024)

static int path_of(char ret[PATH_MAX], const char *dir, enum validate_component c,
	const char *ending, struct error *err)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s%s", validate_component_name(c), ending);
	return path_join(ret, PATH_MAX, dir, name, err);
}

static int remove_validation_file(const char *path, struct error *err)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return error_sys(err, errno, "remove '%s'", path);
	return 0;
}

static int remove_of(const char *dir, enum validate_component c, const char *ending,
	struct error *err)
{
	char path[PATH_MAX];

	return path_of(path, dir, c, ending, err) < 0 ? -1 : remove_validation_file(path, err);
}

int files_begin(const char *dir, enum validate_component c, struct error *err)
{
	/* The ready file first: other pods wait for it. */
	if (dir_make(dir, DIR_MODE, err) < 0 || remove_of(dir, c, "-ready", err) < 0)
		return -1;
	return remove_of(dir, c, ".json", err);
}

static json_t *item_json(const struct validate_item *i)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", i->name, "detail", i->detail,
		"result", validate_result_name(i->result), "code", validate_code_name(i->code),
		"text", i->text);

	if (o && i->took_ns)
		(void)json_object_set_new(o, "tookMs",
			json_integer((json_int_t)(i->took_ns / NS_PER_MS)));
	return o;
}

json_t *files_json(const struct validate_report *r)
{
	char at[TIME_RFC3339_MAX], boot[64];
	json_t *o, *items = json_array();

	time_rfc3339(r->at_wall_ns, at);
	procfs_boot_id("/proc", boot, sizeof(boot)); /* "" (like a driver's version): unknown */
	for (size_t i = 0; items && i < r->n_items; i++)
		(void)json_array_append_new(items, item_json(&r->items[i]));
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s?, s:s?, s:o}", "component",
		validate_component_name(r->component), "result",
		validate_result_name(r->result), "code", validate_code_name(r->code), "text",
		r->text, "advice", validate_code_advice(r->code), "time", at, "tookMs",
		(json_int_t)(r->took_ns / NS_PER_MS), "bootId", *boot ? boot : NULL,
		"driverVersion", *r->driver_version ? r->driver_version : NULL, "items", items);
	return o;
}

int files_write(const char *dir, const struct validate_report *r, struct error *err)
{
	bool valid = r->result == VALIDATE_PASS || r->result == VALIDATE_CONDITION;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(JSON_FILE_MAX);
	CLEANUP(freep) char *text = NULL;
	json_auto_t *json = files_json(r);
	char path[PATH_MAX];

	/* The removal needs neither memory nor disk space, so it comes first. */
	if (!valid && remove_of(dir, r->component, "-ready", err) < 0)
		return -1;
	text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	buf_printf(&b, "%s\n", text ? text : "");
	if (!text || !buf_ok(&b) || !buf_ok(&r->ready))
		return error_nomem(err);
	/* The JSON first: a pod that waits for the ready file may read the JSON at once. */
	if (path_of(path, dir, r->component, ".json", err) < 0 ||
		file_write_atomic(path, buf_str(&b), b.len, FILE_MODE, err) < 0)
		return -1;
	if (!valid)
		return 0;
	return path_of(path, dir, r->component, "-ready", err) < 0
		       ? -1
		       : file_write_atomic(path, buf_str(&r->ready), r->ready.len, FILE_MODE,
				 err);
}

/* ".driver-ready.k3ZpQ0": the file that a killed file_write_atomic() leaves. */
static bool is_left_over(const char *name)
{
	static const char *const endings[] = { "-ready", ".json" };
	char start[64];

	for (size_t i = 0; i < ARRAY_LEN(endings) * VALIDATE_COUNT_; i++) {
		int n = snprintf(start, sizeof(start), ".%s%s.",
			validate_component_name((enum validate_component)(i / 2)),
			endings[i % 2]);

		if (strncmp(name, start, (size_t)n) == 0 && strlen(name + n) == 6)
			return true;
	}
	return false;
}

static bool is_status_file(const char *name)
{
	size_t len = strlen(name);
	char json[64];

	if (name[0] == '.')
		return is_left_over(name);
	if (len > 6 && strcmp(name + len - 6, "-ready") == 0)
		return true;
	for (int i = 0; i < VALIDATE_COUNT_; i++) {
		(void)snprintf(json, sizeof(json), "%s.json",
			validate_component_name((enum validate_component)i));
		if (strcmp(name, json) == 0)
			return true;
	}
	return false;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

int files_cleanup(const char *dir, struct error *err)
{
	CLEANUP(closedirp) DIR *d = opendir(dir);
	struct dirent *e;

	if (!d)
		return errno == ENOENT ? 0 : error_sys(err, errno, "read '%s'", dir);
	while ((e = readdir(d)) != NULL) {
		if (is_status_file(e->d_name) && unlinkat(dirfd(d), e->d_name, 0) < 0 &&
			errno != ENOENT)
			return error_sys(err, errno, "remove '%s/%s'", dir, e->d_name);
	}
	return 0;
}

void files_assign(struct buf *b, const char *name, const char *value)
{
	bool plain = *value != '\0';

	for (const char *p = value; *p; p++)
		plain = plain && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
					 (*p >= '0' && *p <= '9') || strchr("/._-", *p));
	buf_printf(b, "%s=", name);
	if (plain) {
		buf_printf(b, "%s\n", value);
		return;
	}
	escape_shell(b, value);
	buf_putc(b, '\n');
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the text of a CDI specification, cdi_spec_new(), from what cdi_search() found and from the config
 * (cdi.h; the reasons: docs/cdi.md).
 */
#include "io/cdi/cdi.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/paths.h"
#include "model/allocate/allocate.h"

/*
 * The directories that a loader searches without a library cache: Debian's family, then Red Hat's.
 * Each library goes to both, so the image's family does not matter. The runtime makes a directory that
 * an image lacks, which does no harm.
 */
static const char *const container_dirs[] = {
#if defined(__aarch64__)
	"/usr/lib/aarch64-linux-gnu",
#else
	"/usr/lib/x86_64-linux-gnu",
#endif
	"/usr/lib64",
};

static const char *const file_options[] = { "ro", "nosuid", "nodev", "rbind", "rprivate",
	NULL };
static const char *const socket_options[] = { "nosuid", "nodev", "noexec", "rbind", "rprivate",
	NULL };

/* Features that a specification may need, and the CDI version of each, in order. The writer does not
 * use types of mounts (0.4.0), annotations (0.6.0) and network devices (1.1.0). */
enum cdi_feature { NEED_NOTHING, NEED_HOST_PATH, NEED_DIGIT_FIRST, NEED_GIDS };
static const struct {
	enum cdi_feature need;
	const char *version;
} versions[] = {
	{ NEED_NOTHING, "0.3.0" },
	{ NEED_HOST_PATH, "0.5.0" },
	{ NEED_DIGIT_FIRST, "0.5.0" },
	{ NEED_GIDS, "0.7.0" },
};

struct spec_source {
	const struct cdi_found *found;
	const struct config *config;
	unsigned needs; /* a set of 1 << enum cdi_feature */
	bool by_mounts; /* mounts give libraries their names, not a hook's symlinks */
	bool failed;    /* out of memory, or a path is too long */
};

static bool hook_wanted(const struct spec_source *s, const char *name)
{
	const struct strv *off = &s->config->cdi_disabled_hooks;

	return s->config->cdi_hook_path_set && !strv_has(off, "all") && !strv_has(off, name);
}

static json_t *build_spec_text(struct spec_source *s, const char *value)
{
	json_t *j = json_string(value);

	s->failed = s->failed || !j;
	return j;
}

/* Takes over @value, which may be NULL after a failure. */
static void set_spec_value(struct spec_source *s, json_t *object, const char *key,
	json_t *value)
{
	s->failed = json_object_set_new(object, key, value) < 0 || s->failed;
}

static void add_spec_item(struct spec_source *s, json_t *list, json_t *value)
{
	s->failed = json_array_append_new(list, value) < 0 || s->failed;
}

/* Leaves out an empty list: not every reader of CDI accepts one. */
static void set_spec_list(struct spec_source *s, json_t *object, const char *key, json_t *list)
{
	if (json_array_size(list) > 0)
		set_spec_value(s, object, key, list);
	else
		json_decref(list);
}

static json_t *build_spec_texts(struct spec_source *s, const char *const *v)
{
	json_t *list = json_array();

	for (; *v; v++)
		add_spec_item(s, list, build_spec_text(s, *v));
	return list;
}

/* --- device nodes --- */

static void add_spec_nodes(struct spec_source *s, json_t *list, const struct cdi_edits *e)
{
	char host[PATH_MAX];

	for (size_t i = 0; i < e->n_nodes; i++) {
		const char *path = e->nodes[i].path;
		json_t *node = json_object();

		set_spec_value(s, node, "path", build_spec_text(s, path));
		if (root_join(host, sizeof(host), s->config->dev_root, path, NULL) < 0)
			s->failed = true;
		else if (strcmp(host, path) != 0) {
			set_spec_value(s, node, "hostPath", build_spec_text(s, host));
			s->needs |= 1 << NEED_HOST_PATH;
		}
		/* No mknod: the runtime makes the nodes. */
		set_spec_value(s, node, "permissions", build_spec_text(s, "rw"));
		add_spec_item(s, list, node);
	}
}

static void add_gids(struct spec_source *s, json_t *list, const struct cdi_edits *e)
{
	if (strv_has(&s->config->cdi_features, "no-additional-gids-for-device-nodes"))
		return;
	for (size_t i = 0; i < e->n_nodes; i++) {
		bool known = e->nodes[i].gid == 0;

		for (size_t k = 0; !known && k < json_array_size(list); k++)
			known = json_integer_value(json_array_get(list, k)) == e->nodes[i].gid;
		if (known)
			continue;
		add_spec_item(s, list, json_integer(e->nodes[i].gid));
		s->needs |= 1 << NEED_GIDS;
	}
}

/* --- mounts --- */

static void add_spec_mount(struct spec_source *s, json_t *list, const char *real,
	const char *path, const char *const *options)
{
	json_t *mount = json_object();
	char host[PATH_MAX];

	if (root_join(host, sizeof(host), s->found->driver_root, real, NULL) < 0)
		s->failed = true;
	else
		set_spec_value(s, mount, "hostPath", build_spec_text(s, host));
	set_spec_value(s, mount, "containerPath", build_spec_text(s, path));
	set_spec_value(s, mount, "options", build_spec_texts(s, options));
	add_spec_item(s, list, mount);
}

static void mount_library(struct spec_source *s, json_t *list, const struct cdi_library *l,
	const char *dir, const char *sub, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s%s%s/%s", dir, *sub ? "/" : "", sub, name);

	if (n < 0 || n >= (int)sizeof(path))
		s->failed = true;
	else
		add_spec_mount(s, list, l->real, path, file_options);
}

static void mount_libraries(struct spec_source *s, json_t *list)
{
	for (size_t i = 0; i < s->found->n_libraries; i++) {
		const struct cdi_library *l = &s->found->libraries[i];

		if (!s->by_mounts) {
			mount_library(s, list, l, l->dir, "", l->name);
			continue;
		}
		for (size_t d = 0; d < ARRAY_LEN(container_dirs); d++) {
			mount_library(s, list, l, container_dirs[d], l->sub, l->name);
			for (size_t k = 0; k < l->names.n; k++)
				mount_library(s, list, l, container_dirs[d], l->sub,
					l->names.v[k]);
		}
	}
}

static void mount_files(struct spec_source *s, json_t *list, const struct cdi_edits *e)
{
	for (size_t i = 0; i < e->n_files; i++)
		add_spec_mount(s, list, e->files[i].real, e->files[i].path,
			e->files[i].kind == CDI_FILE ? file_options : socket_options);
}

/* --- hooks: arguments as of nvidia-container-toolkit 1.17 and later --- */

static const char *get_path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The first arguments of a hook; NULL: the hook is disabled. nvidia-ctk has the hooks in a
 * subcommand. */
static json_t *hook_args(struct spec_source *s, const char *name)
{
	const char *program = get_path_base(s->config->cdi_hook_path);
	json_t *args;

	if (!hook_wanted(s, name))
		return NULL;
	args = json_array();
	if (!strcmp(program, "nvidia-ctk")) {
		add_spec_item(s, args, build_spec_text(s, program));
		add_spec_item(s, args, build_spec_text(s, "hook"));
	} else {
		add_spec_item(s, args, build_spec_text(s, "nvidia-cdi-hook"));
	}
	add_spec_item(s, args, build_spec_text(s, name));
	return args;
}

/* Takes over @args. */
static void add_hook(struct spec_source *s, json_t *list, json_t *args)
{
	json_t *hook = json_object();

	set_spec_value(s, hook, "hookName", build_spec_text(s, "createContainer"));
	set_spec_value(s, hook, "path", build_spec_text(s, s->config->cdi_hook_path));
	set_spec_value(s, hook, "args", args);
	add_spec_item(s, list, hook);
}

static void add_option(struct spec_source *s, json_t *args, const char *option,
	const char *value)
{
	add_spec_item(s, args, build_spec_text(s, option));
	add_spec_item(s, args, build_spec_text(s, value));
}

static void add_link_option(struct spec_source *s, json_t *args, const char *target,
	const char *dir, const char *name)
{
	char link[PATH_MAX];
	int n = snprintf(link, sizeof(link), "%s::%s/%s", target, dir, name);

	if (n < 0 || n >= (int)sizeof(link))
		s->failed = true;
	else
		add_option(s, args, "--link", link);
}

/* libcuda.so.1 points to the file, libcuda.so to libcuda.so.1. */
static void link_libraries(struct spec_source *s, json_t *hooks)
{
	json_t *args = s->by_mounts ? NULL : hook_args(s, "create-symlinks");
	bool any = false;

	for (size_t i = 0; args && i < s->found->n_libraries; i++) {
		const struct cdi_library *l = &s->found->libraries[i];

		for (size_t k = 0; k < l->names.n; k++) {
			bool second = k > 0 && l->soname_first;

			add_link_option(s, args, second ? l->names.v[0] : l->name, l->dir,
				l->names.v[k]);
			any = true;
		}
	}
	if (any)
		add_hook(s, hooks, args);
	else
		json_decref(args);
}

static void update_cache(struct spec_source *s, json_t *hooks)
{
	json_t *args = s->by_mounts ? NULL : hook_args(s, "update-ldcache");
	const struct cdi_found *f = s->found;

	if (!args)
		return;
	for (size_t i = 0; i < f->n_libraries; i++) {
		bool known = false;

		for (size_t k = 0; !known && k < i; k++)
			known = !strcmp(f->libraries[k].dir, f->libraries[i].dir);
		if (!known)
			add_option(s, args, "--folder", f->libraries[i].dir);
	}
	add_hook(s, hooks, args);
}

static void common_hooks(struct spec_source *s, json_t *hooks)
{
	char version[sizeof(s->found->driver_version) + 32];
	json_t *args;

	link_libraries(s, hooks);
	args = hook_args(s, "enable-cuda-compat");
	if (args) {
		(void)snprintf(version, sizeof(version), "--host-driver-version=%s",
			s->found->driver_version);
		add_spec_item(s, args, build_spec_text(s, version));
		add_hook(s, hooks, args);
	}
	update_cache(s, hooks);
	args = hook_args(s, "disable-device-node-modification");
	if (args)
		add_hook(s, hooks, args);
}

static void link_nodes(struct spec_source *s, json_t *hooks, const struct cdi_edits *e)
{
	json_t *args = e->links.n ? hook_args(s, "create-symlinks") : NULL;

	if (!args)
		return;
	for (size_t i = 0; i < e->links.n; i++)
		add_option(s, args, "--link", e->links.v[i]);
	add_hook(s, hooks, args);
}

/* --- the whole --- */

/* The directory in the container where libcuda is. */
static const char *cuda_dir(const struct spec_source *s)
{
	for (size_t i = 0; i < s->found->n_libraries && !s->by_mounts; i++)
		if (!strncmp(s->found->libraries[i].name, "libcuda.so.", 11))
			return s->found->libraries[i].dir;
	return container_dirs[0];
}

static json_t *build_container_edits(struct spec_source *s, const struct cdi_edits *e,
	bool common)
{
	json_t *o = json_object(), *env = json_array(), *nodes = json_array();
	json_t *mounts = json_array(), *hooks = json_array(), *gids = json_array();
	char dir[PATH_MAX];

	if (common) {
		(void)snprintf(dir, sizeof(dir), "NVIDIA_CTK_LIBCUDA_DIR=%s", cuda_dir(s));
		add_spec_item(s, env, build_spec_text(s, dir));
		/* NVIDIA's runtime, where installed, must leave the container alone. */
		add_spec_item(s, env, build_spec_text(s, "NVIDIA_VISIBLE_DEVICES=void"));
		mount_libraries(s, mounts);
		common_hooks(s, hooks);
	}
	add_spec_nodes(s, nodes, e);
	mount_files(s, mounts, e);
	link_nodes(s, hooks, e);
	add_gids(s, gids, e);
	set_spec_list(s, o, "env", env);
	set_spec_list(s, o, "deviceNodes", nodes);
	set_spec_list(s, o, "mounts", mounts);
	set_spec_list(s, o, "hooks", hooks);
	set_spec_list(s, o, "additionalGids", gids);
	return o;
}

static json_t *build_spec_devices(struct spec_source *s, enum cdi_class class_)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->found->n_devices[class_]; i++) {
		const struct cdi_device *d = &s->found->devices[class_][i];
		json_t *device = json_object();

		if (d->name[0] >= '0' && d->name[0] <= '9')
			s->needs |= 1 << NEED_DIGIT_FIRST;
		set_spec_value(s, device, "name", build_spec_text(s, d->name));
		set_spec_value(s, device, "containerEdits",
			build_container_edits(s, &d->edits, /* common= */ false));
		add_spec_item(s, list, device);
	}
	return list;
}

static const char *version_of(const struct spec_source *s)
{
	const char *version = versions[0].version;

	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (s->needs & 1U << versions[i].need)
			version = versions[i].version;
	return version;
}

/* Checks the paths from the user: JSON cannot hold text that is not UTF-8. */
static int check_paths(const struct config *c, const struct cdi_found *f, struct error *err)
{
	const char *const paths[] = { c->dev_root, c->cdi_hook_path, f->driver_root };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		json_t *j = json_string(paths[i]);

		if (!j)
			return error_set(err, ERR_INVALID,
				"CDI: a root or the hook path is not UTF-8 (or out of memory)");
		json_decref(j);
	}
	return 0;
}

int cdi_spec_new(char **ret, enum cdi_class class_, const struct cdi_found *found,
	const struct config *config, struct error *err)
{
	struct spec_source s = { .found = found, .config = config };
	char kind[CDI_FILE_NAME_MAX];
	json_t *top, *list, *common = NULL;
	char *out = NULL, *json;

	if (found->n_devices[class_] == 0)
		return CDI_E_EMPTY;
	if (check_paths(config, found, err) < 0)
		return -1;
	s.by_mounts = !hook_wanted(&s, "create-symlinks") || !hook_wanted(&s, "update-ldcache");
	list = build_spec_devices(&s, class_);
	if (class_ == CDI_GPU)
		common = build_container_edits(&s, &found->common, /* common= */ true);
	(void)snprintf(kind, sizeof(kind), CDI_VENDOR "/%s", cdi_class_name(class_));
	top = json_object();
	set_spec_value(&s, top, "cdiVersion", build_spec_text(&s, version_of(&s)));
	set_spec_value(&s, top, "kind", build_spec_text(&s, kind));
	set_spec_value(&s, top, "devices", list);
	if (common)
		set_spec_value(&s, top, "containerEdits", common);
	json = s.failed ? NULL : json_dumps(top, JSON_INDENT(2));
	json_decref(top);
	if (json && asprintf(&out, "%s\n", json) < 0)
		out = NULL;
	free(json);
	if (!out)
		return error_set(err, ERR_NOMEM,
			"CDI specification '%s': out of memory, or a path is too long", kind);
	*ret = out;
	return 0;
}

void cdi_file_name(char *ret, enum cdi_class class_)
{
	(void)snprintf(ret, CDI_FILE_NAME_MAX, CDI_VENDOR "-%s.json", cdi_class_name(class_));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/allocate/allocate.h"
#include "io/cdi/cdi.h"

#include <jansson.h>

#if defined(__aarch64__)
#	define LIBS "/usr/lib/aarch64-linux-gnu"
#else
#	define LIBS "/usr/lib/x86_64-linux-gnu"
#endif

/* A driver of one library, one GPU with one node for graphics, one of each other thing. */
struct fixture {
	struct cdi_found found;
	struct cdi_library library;
	struct cdi_device devices[2];
	struct cdi_node control, nodes[2], second;
	struct cdi_file files[2];
	struct config *config;
	struct error err;
};

#define TEXT(s) ((char *)(uintptr_t)(s)) /* only read */

static void setup(struct fixture *f)
{
	*f = (struct fixture){
		.library = { .dir = TEXT("/usr/lib/drv"),
			.sub = TEXT(""),
			.name = TEXT("libcuda.so.1.2"),
			.real = TEXT("/usr/lib/drv/libcuda.so.1.2") },
		.control = { TEXT("/dev/nvidiactl"), 0 },
		.nodes = { { TEXT("/dev/nvidia0"), 0 }, { TEXT("/dev/dri/card1"), 44 } },
		.second = { TEXT("/dev/nvidia1"), 0 },
		.files = { { CDI_FILE, TEXT("/usr/bin/nvidia-smi"), TEXT("/opt/nvidia-smi") },
			{ CDI_SOCKET, TEXT("/run/s"), TEXT("/run/s") } },
	};
	(void)snprintf(f->devices[0].name, CDI_NAME_MAX, "GPU-0");
	(void)snprintf(f->devices[1].name, CDI_NAME_MAX, "GPU-1");
	f->devices[0].edits.nodes = f->nodes;
	f->devices[0].edits.n_nodes = 1;
	f->devices[1].edits.nodes = &f->second;
	f->devices[1].edits.n_nodes = 1;
	f->found.libraries = &f->library;
	f->found.n_libraries = 1;
	f->found.common = (struct cdi_edits){ .nodes = &f->control,
		.n_nodes = 1,
		.files = f->files,
		.n_files = 2 };
	f->found.devices[CDI_GPU] = f->devices;
	f->found.n_devices[CDI_GPU] = 2;
	f->found.driver_root = strdup("/");
	(void)snprintf(f->found.driver_version, sizeof(f->found.driver_version), "1.2");
	assert_ok(strv_add(&f->library.names, "libcuda.so.1", &f->err), &f->err);
	assert_ok(strv_add(&f->library.names, "libcuda.so", &f->err), &f->err);
	f->library.soname_first = true;
	assert_ok(config_new(&f->config, &f->err), &f->err);
}

static void teardown(struct fixture *f)
{
	strv_fini(&f->library.names);
	strv_fini(&f->devices[0].edits.links);
	free(f->found.driver_root);
	(void)config_free(f->config);
}

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = strdup(text);
}

static json_t *make_cdi_json(struct fixture *f)
{
	char *text = NULL;
	json_t *j;

	assert_ok(cdi_spec_new(&text, CDI_GPU, &f->found, f->config, &f->err), &f->err);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	free(text);
	return j;
}

/* "HOST:CONTAINER ..." of the mounts, or the lines of hooks. */
static void expect_mounts(const json_t *j, const char *want)
{
	const json_t *list = json_object_get(json_object_get(j, "containerEdits"), "mounts"),
		     *m;
	char text[4096] = "";
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, m)(void)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%s\n",
			json_string_value(json_object_get(m, "hostPath")),
			json_string_value(json_object_get(m, "containerPath")));
	assert_string_equal(text, want);
}

static void expect_hooks(const json_t *edits, const char *want)
{
	const json_t *list = json_object_get(edits, "hooks"), *h, *a;
	char text[4096] = "";
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)list, i, h)
	{
		assert_string_equal(json_string_value(json_object_get(h, "hookName")),
			"createContainer");
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
			json_string_value(json_object_get(h, "path")));
		json_array_foreach(json_object_get(h, "args"), k, a)(void)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s",
				json_string_value(a));
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n");
	}
	assert_string_equal(text, want);
}

static const char *get_spec_version(const json_t *j)
{
	return json_string_value(json_object_get(j, "cdiVersion"));
}

static void cdi_spec_new__needs_no_hooks(void **state)
{
	struct fixture f;
	json_t *j, *edits;

	(void)state;
	setup(&f);
	j = make_cdi_json(&f);
	assert_string_equal(get_spec_version(j), "0.3.0");
	assert_string_equal(json_string_value(json_object_get(j, "kind")),
		"k8s.device-plugin.nvidia.com/gpu");
	edits = json_object_get(j, "containerEdits");
	assert_null(json_object_get(edits, "hooks"));
	assert_null(json_object_get(edits, "additionalGids"));
	expect_mounts(j, "/usr/lib/drv/libcuda.so.1.2:" LIBS "/libcuda.so.1.2\n"
			 "/usr/lib/drv/libcuda.so.1.2:" LIBS "/libcuda.so.1\n"
			 "/usr/lib/drv/libcuda.so.1.2:" LIBS "/libcuda.so\n"
			 "/usr/lib/drv/libcuda.so.1.2:/usr/lib64/libcuda.so.1.2\n"
			 "/usr/lib/drv/libcuda.so.1.2:/usr/lib64/libcuda.so.1\n"
			 "/usr/lib/drv/libcuda.so.1.2:/usr/lib64/libcuda.so\n"
			 "/opt/nvidia-smi:/usr/bin/nvidia-smi\n"
			 "/run/s:/run/s\n");
	json_decref(j);
	teardown(&f);
}

/* Key for key, so that a change of the form is seen. */
static void cdi_spec_new__has_the_known_form(void **state)
{
	static const char want[] =
		"{\"cdiVersion\":\"0.7.0\",\"kind\":\"k8s.device-plugin.nvidia.com/gpu\","
		"\"devices\":[{\"name\":\"GPU-0\",\"containerEdits\":{\"deviceNodes\":["
		"{\"path\":\"/dev/nvidia0\",\"hostPath\":\"/r/dev/nvidia0\",\"permissions\":\"rw\"},"
		"{\"path\":\"/dev/dri/card1\",\"hostPath\":\"/r/dev/dri/card1\",\"permissions\":\"rw\"}],"
		"\"additionalGids\":[44]}},"
		"{\"name\":\"GPU-1\",\"containerEdits\":{\"deviceNodes\":["
		"{\"path\":\"/dev/nvidia1\",\"hostPath\":\"/r/dev/nvidia1\",\"permissions\":\"rw\"}]}}],"
		"\"containerEdits\":{\"env\":[\"NVIDIA_CTK_LIBCUDA_DIR=" LIBS
		"\",\"NVIDIA_VISIBLE_DEVICES=void\"],"
		"\"deviceNodes\":[{\"path\":\"/dev/nvidiactl\",\"hostPath\":\"/r/dev/nvidiactl\","
		"\"permissions\":\"rw\"}],\"mounts\":["
		"{\"hostPath\":\"/d/opt/nvidia-smi\",\"containerPath\":\"/usr/bin/nvidia-smi\","
		"\"options\":[\"ro\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\"]},"
		"{\"hostPath\":\"/d/run/s\",\"containerPath\":\"/run/s\","
		"\"options\":[\"nosuid\",\"nodev\",\"noexec\",\"rbind\",\"rprivate\"]}]}}";
	struct fixture f;
	char *text;
	json_t *j;

	(void)state;
	setup(&f);
	set_text(&f.found.driver_root, "/d/");
	set_text(&f.config->dev_root, "/r");
	f.found.n_libraries = 0;
	f.devices[0].edits.n_nodes = 2;
	j = make_cdi_json(&f);
	text = json_dumps(j, JSON_COMPACT);
	assert_string_equal(text, want);
	free(text);
	json_decref(j);
	teardown(&f);
}

static void cdi_spec_new__uses_nvidias_hooks_when_asked(void **state)
{
	struct fixture f;
	json_t *j, *device;

	(void)state;
	setup(&f);
	f.config->cdi_hook_path_set = true;
	f.devices[0].edits.n_nodes = 2;
	assert_ok(strv_add(&f.devices[0].edits.links, "../card1::/dev/dri/by-path/x", &f.err),
		&f.err);
	j = make_cdi_json(&f);
	expect_mounts(j, "/usr/lib/drv/libcuda.so.1.2:/usr/lib/drv/libcuda.so.1.2\n"
			 "/opt/nvidia-smi:/usr/bin/nvidia-smi\n"
			 "/run/s:/run/s\n");
	expect_hooks(json_object_get(j, "containerEdits"),
		"/usr/bin/nvidia-ctk nvidia-ctk hook create-symlinks"
		" --link libcuda.so.1.2::/usr/lib/drv/libcuda.so.1"
		" --link libcuda.so.1::/usr/lib/drv/libcuda.so\n"
		"/usr/bin/nvidia-ctk nvidia-ctk hook enable-cuda-compat"
		" --host-driver-version=1.2\n"
		"/usr/bin/nvidia-ctk nvidia-ctk hook update-ldcache --folder /usr/lib/drv\n"
		"/usr/bin/nvidia-ctk nvidia-ctk hook disable-device-node-modification\n");
	device = json_array_get(json_object_get(j, "devices"), 0);
	expect_hooks(json_object_get(device, "containerEdits"),
		"/usr/bin/nvidia-ctk nvidia-ctk hook create-symlinks"
		" --link ../card1::/dev/dri/by-path/x\n");
	assert_string_equal(
		json_string_value(json_array_get(
			json_object_get(json_object_get(j, "containerEdits"), "env"), 0)),
		"NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/drv");
	json_decref(j);
	/* the other program, and a hook that is not wanted */
	set_text(&f.config->cdi_hook_path, "/x/nvidia-cdi-hook");
	assert_ok(strv_add(&f.config->cdi_disabled_hooks, "enable-cuda-compat", &f.err),
		&f.err);
	j = make_cdi_json(&f);
	expect_hooks(json_object_get(j, "containerEdits"),
		"/x/nvidia-cdi-hook nvidia-cdi-hook create-symlinks"
		" --link libcuda.so.1.2::/usr/lib/drv/libcuda.so.1"
		" --link libcuda.so.1::/usr/lib/drv/libcuda.so\n"
		"/x/nvidia-cdi-hook nvidia-cdi-hook update-ldcache --folder /usr/lib/drv\n"
		"/x/nvidia-cdi-hook nvidia-cdi-hook disable-device-node-modification\n");
	json_decref(j);
	teardown(&f);
}

/* A container without links and cache finds its libraries all the same. */
static void cdi_spec_new__mounts_names_where_hooks_are_off(void **state)
{
	static const struct {
		const char *off, *hooks;
	} rows[] = {
		{ "all", "" },
		{ "create-symlinks",
			"/usr/bin/nvidia-ctk nvidia-ctk hook enable-cuda-compat"
			" --host-driver-version=1.2\n"
			"/usr/bin/nvidia-ctk nvidia-ctk hook disable-device-node-modification\n" },
		{ "update-ldcache",
			"/usr/bin/nvidia-ctk nvidia-ctk hook enable-cuda-compat"
			" --host-driver-version=1.2\n"
			"/usr/bin/nvidia-ctk nvidia-ctk hook disable-device-node-modification\n" },
	};
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *j, *edits;

		setup(&f);
		f.config->cdi_hook_path_set = true;
		assert_ok(strv_add(&f.config->cdi_disabled_hooks, rows[i].off, &f.err), &f.err);
		j = make_cdi_json(&f);
		edits = json_object_get(j, "containerEdits");
		assert_int_equal(json_array_size(json_object_get(edits, "mounts")), 8);
		expect_hooks(edits, rows[i].hooks);
		json_decref(j);
		teardown(&f);
	}
}

static void cdi_spec_new__names_the_lowest_version(void **state)
{
	struct fixture f;
	json_t *j;

	(void)state;
	setup(&f);
	(void)snprintf(f.devices[0].name, CDI_NAME_MAX, "0");
	j = make_cdi_json(&f);
	assert_string_equal(get_spec_version(j), "0.5.0");
	json_decref(j);
	(void)snprintf(f.devices[0].name, CDI_NAME_MAX, "GPU-0");
	set_text(&f.config->dev_root, "/run/nvidia/driver");
	j = make_cdi_json(&f);
	assert_string_equal(get_spec_version(j), "0.5.0");
	json_decref(j);
	f.devices[0].edits.n_nodes = 2;
	j = make_cdi_json(&f);
	assert_string_equal(get_spec_version(j), "0.7.0");
	json_decref(j);
	assert_ok(strv_add(&f.config->cdi_features, "no-additional-gids-for-device-nodes",
			  &f.err),
		&f.err);
	j = make_cdi_json(&f);
	assert_string_equal(get_spec_version(j), "0.5.0");
	json_decref(j);
	teardown(&f);
}

static void cdi_spec_new__refuses_invalid_input(void **state)
{
	struct fixture f;
	char *text = NULL;
	char root[5000];

	(void)state;
	setup(&f);
	for (size_t c = CDI_GPU + 1; c < CDI_CLASSES; c++)
		assert_int_equal(
			cdi_spec_new(&text, (enum cdi_class)c, &f.found, f.config, &f.err),
			CDI_E_EMPTY);
	set_text(&f.config->dev_root, "/\xff");
	assert_error(cdi_spec_new(&text, CDI_GPU, &f.found, f.config, &f.err), &f.err,
		"not UTF-8");
	memset(root, 'x', sizeof(root) - 1);
	root[0] = '/';
	root[sizeof(root) - 1] = '\0';
	set_text(&f.config->dev_root, root);
	assert_error(cdi_spec_new(&text, CDI_GPU, &f.found, f.config, &f.err), &f.err,
		"a path is too long");
	assert_null(text);
	teardown(&f);
}

static void cdi__validates_names(void **state)
{
	static const char *const good[] = { "0", "GPU-1", "a", "0:1", "MIG-a.b_c" };
	static const char *const bad[] = { "", "-a", "a-", "a b", "a,b", "a=b", "a/b",
		"\xc3\xa9" };
	char name[CDI_FILE_NAME_MAX];
	enum cdi_class class_;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(cdi_device_name_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(cdi_device_name_valid(bad[i]));
	for (size_t i = 0; i < CDI_CLASSES; i++) {
		assert_true(cdi_class_find(cdi_class_name((enum cdi_class)i), &class_));
		assert_int_equal(class_, i);
	}
	assert_false(cdi_class_find("cpu", &class_));
	cdi_file_name(name, CDI_IMEX_CHANNEL);
	assert_string_equal(name, "k8s.device-plugin.nvidia.com-imex-channel.json");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cdi_spec_new__needs_no_hooks),
		cmocka_unit_test(cdi_spec_new__has_the_known_form),
		cmocka_unit_test(cdi_spec_new__uses_nvidias_hooks_when_asked),
		cmocka_unit_test(cdi_spec_new__mounts_names_where_hooks_are_off),
		cmocka_unit_test(cdi_spec_new__names_the_lowest_version),
		cmocka_unit_test(cdi_spec_new__refuses_invalid_input),
		cmocka_unit_test(cdi__validates_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "tools/validate/driver/internal.h"

static char *dir;

static int set_up(void **state)
{
	(void)state;
	dir = test_tmpdir();
	return dir ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

static const char *make_path(const char *name)
{
	static char paths[8][512];
	static unsigned next;
	char *path = paths[next++ % 8];

	assert_ok(path_join(path, sizeof(paths[0]), dir, name, NULL),
		&(struct error)ERROR_INIT);
	return path;
}

static void write_driver_file(const char *name, const char *text, mode_t mode)
{
	test_write(dir, name, text, strlen(text), mode);
}

static struct driver_root find(void)
{
	static char host[512], driver[512];
	struct validate_settings s = { .host_root = "/",
		.host_ctr = host,
		.driver_dir = "/run/nvidia/driver",
		.driver_ctr = driver };
	struct driver_root r;

	(void)snprintf(host, sizeof(host), "%s", make_path("host"));
	(void)snprintf(driver, sizeof(driver), "%s", make_path("driver"));
	driver_root_find(&s, &r);
	return r;
}

static void root__is_the_node_where_nvidia_smi_can_be_run(void **state)
{
	static const char *const places[] = { "usr/bin", "usr/sbin", "bin", "sbin",
		"usr/lib/wsl/lib", "opt/bin" };
	struct driver_root r;

	(void)state;
	assert_int_equal(find().kind, DRIVER_ROOT_NONE);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char name[128], want[128];

		(void)snprintf(name, sizeof(name), "host/%s/nvidia-smi", places[i]);
		(void)snprintf(want, sizeof(want), "/%s/nvidia-smi", places[i]);
		write_driver_file(name, "#!/bin/sh\n", 0755);
		r = find();
		assert_int_equal(r.kind, DRIVER_ROOT_HOST);
		assert_string_equal(r.smi, want);
		assert_int_equal(r.wsl, strcmp(places[i], "usr/lib/wsl/lib") == 0);
		assert_int_equal(unlink(make_path(name)), 0);
	}
}

static void root__is_not_the_node_where_nvidia_smi_is_invalid(void **state)
{
	struct driver_root r;

	(void)state;
	write_driver_file("host/usr/bin/nvidia-smi", "", 0755);
	r = find();
	assert_int_equal(r.kind, DRIVER_ROOT_NONE);
	assert_non_null(strstr(r.note, "usr/bin/nvidia-smi is empty"));
	write_driver_file("host/usr/bin/nvidia-smi", "x", 0644);
	r = find();
	assert_int_equal(r.kind, DRIVER_ROOT_NONE);
	assert_non_null(strstr(r.note, "is not executable"));
	assert_int_equal(unlink(make_path("host/usr/bin/nvidia-smi")), 0);
	assert_int_equal(mkdir(make_path("host/usr/bin/nvidia-smi"), 0755), 0);
	r = find();
	assert_int_equal(r.kind, DRIVER_ROOT_NONE);
	assert_non_null(strstr(r.note, "is no regular file"));
}

static void root__follows_links_as_the_node_does(void **state)
{
	(void)state;
	write_driver_file("host/usr/bin/x", "", 0755);
	assert_int_equal(symlink("/etc/alternatives/smi", make_path("host/usr/bin/nvidia-smi")),
		0);
	assert_int_equal(find().kind, DRIVER_ROOT_NONE);
	/* The link leads to the file below the node's root, not to that of the container. */
	write_driver_file("host/etc/alternatives/smi", "#!/bin/sh\n", 0755);
	assert_int_equal(find().kind, DRIVER_ROOT_HOST);
}

static void root__of_a_driver_container_needs_the_library(void **state)
{
	struct validate_settings s = { .host_root = "/", .host_ctr = "/" };
	const char *node, *here;
	struct driver_root r;

	(void)state;
	write_driver_file("driver/usr/bin/nvidia-smi", "#!/bin/sh\n", 0755);
	assert_int_equal(find().kind, DRIVER_ROOT_NONE);
	write_driver_file("driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "x", 0644);
	r = find();
	assert_int_equal(r.kind, DRIVER_ROOT_CONTAINER);
	assert_string_equal(r.node, "/run/nvidia/driver");
	assert_string_equal(r.library,
		make_path("driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"));
	/* An absolute link of the container leads inside of it. */
	assert_int_equal(mkdir(make_path("driver/usr/lib64"), 0755), 0);
	assert_int_equal(symlink("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
				 make_path("driver/usr/lib64/libnvidia-ml.so.1")),
		0);
	assert_string_equal(find().library,
		make_path("driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"));
	driver_root_dev(&s, &r, &node, &here);
	assert_string_equal(node, "/");
	assert_int_equal(mkdir(make_path("driver/dev"), 0755), 0);
	driver_root_dev(&s, &r, &node, &here);
	assert_string_equal(node, "/run/nvidia/driver");
	/* The node comes first. */
	write_driver_file("host/usr/bin/nvidia-smi", "#!/bin/sh\n", 0755);
	assert_int_equal(find().kind, DRIVER_ROOT_HOST);
}

static void smi__of_a_container_runs_with_its_library_in_front(void **state)
{
	struct error err = ERROR_INIT;
	struct driver_root r;

	(void)state;
	write_driver_file("driver/usr/lib64/libnvidia-ml.so.1", "x", 0644);
	write_driver_file("driver/usr/bin/nvidia-smi",
		"#!/bin/sh\ncase $LD_PRELOAD in */driver/usr/lib64/libnvidia-ml.so.1) exit ${1:+3};; esac\nexit 9\n",
		0755);
	r = find();
	assert_ok(driver_root_smi(&r, false, UINT64_C(10000000000), &err), &err);
	assert_error(driver_root_smi(&r, true, UINT64_C(10000000000), &err), &err, "status 3");
}

static void flag__is_read_as_shell_or_yaml(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{ "GDS_ENABLED: true", true },
		{ "A=1\n  GDS_ENABLED=true\nB=2", true },
		{ "GDS_ENABLED: \"True\"\n", true },
		{ "GDS_ENABLED: false", false },
		{ "GDS_ENABLED: trueish", false },
		{ "XGDS_ENABLED: true", false },
		{ "GDS_ENABLEDX: true", false },
		{ "GDS_ENABLED", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(driver_flag(rows[i].text, "GDS_ENABLED"), rows[i].want);
}

/* --- device nodes --- */

static void make_node(const char *name, unsigned major_, unsigned minor_)
{
	if (mknod(make_path(name), S_IFCHR | 0666, makedev(major_, minor_)) < 0)
		skip();
}

static void link_is(const char *number, const char *want)
{
	char name[64], found[512] = "";
	ssize_t n;

	(void)snprintf(name, sizeof(name), "char/%s", number);
	n = readlink(make_path(name), found, sizeof(found) - 1);
	found[n < 0 ? 0 : n] = '\0';
	assert_string_equal(found, want);
}

static void dev_char__links_each_node_and_corrects_wrong_links(void **state)
{
	struct error err = ERROR_INIT;
	unsigned made = 99;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may make device nodes");
	assert_ok(dir_make(make_path("dev/nvidia-caps"), 0755, &err), &err);
	assert_ok(dir_make(make_path("char"), 0755, &err), &err);
	make_node("dev/nvidia0", 195, 0);
	make_node("dev/nvidia1", 195, 1);
	make_node("dev/nvidiactl", 195, 255);
	make_node("dev/nvidia-uvm", 510, 0);
	make_node("dev/nvidia-caps/nvidia-cap1", 511, 1);
	make_node("dev/null", 1, 3);
	write_driver_file("dev/nvidia-file", "x", 0644);
	write_driver_file("char/195:1", "no link", 0644);
	assert_int_equal(symlink("../nvidia0", make_path("char/195:0")),
		0); /* right, as udev has it */
	assert_int_equal(symlink("/dev/nvidia7", make_path("char/195:255")), 0); /* wrong */
	assert_ok(dev_char_link(make_path("dev"), make_path("char"), "/run/driver/dev", &made,
			  &err),
		&err);
	assert_int_equal(made, 3);
	link_is("195:0", "../nvidia0");
	link_is("195:1", "");
	link_is("195:255", "/run/driver/dev/nvidiactl");
	link_is("510:0", "/run/driver/dev/nvidia-uvm");
	link_is("511:1", "/run/driver/dev/nvidia-caps/nvidia-cap1");
	assert_int_not_equal(access(make_path("char/1:3"), F_OK), 0);
	assert_ok(dev_char_link(make_path("dev"), make_path("char"), "/run/driver/dev", &made,
			  &err),
		&err);
	assert_int_equal(made, 0);
}

static void dev_char__reports_which_link_could_not_be_created(void **state)
{
	struct error err = ERROR_INIT;
	unsigned made;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may make device nodes");
	assert_ok(dir_make(make_path("dev"), 0755, &err), &err);
	make_node("dev/nvidia0", 195, 0);
	/* Root cannot write either in a directory where no user may write. */
	assert_error(dev_char_link(make_path("dev"), "/proc/self", "/dev", &made, &err), &err,
		"195:0");
	assert_error(dev_char_link(make_path("none"), make_path("char"), "/dev", &made, &err),
		&err, "No such file");
}

static void missing_nodes__are_created_with_the_numbers_of_the_kernel(void **state)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	struct stat st;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may make device nodes");
	assert_ok(inventory_new(&inv, 1, &err), &err);
	inv->gpus[0].minor = 3;
	inv->gpus[0].has_minor = true;
	write_driver_file("devices",
		"Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n",
		0644);
	assert_ok(dir_make(make_path("dev"), 0755, &err), &err);
	make_node("dev/probe", 1, 3); /* skips where that is not allowed */
	assert_error(
		dev_nodes_check(make_path("dev"), make_path("devices"), inv, false, true, &err),
		&err, "nvidiactl");
	assert_ok(
		dev_nodes_check(make_path("dev"), make_path("devices"), inv, true, true, &err),
		&err);
	assert_int_equal(stat(make_path("dev/nvidia3"), &st), 0);
	assert_int_equal(st.st_rdev, makedev(195, 3));
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(stat(make_path("dev/nvidia-uvm-tools"), &st), 0);
	assert_int_equal(st.st_rdev, makedev(510, 1));
	assert_ok(
		dev_nodes_check(make_path("dev"), make_path("devices"), inv, false, true, &err),
		&err);
}

static void nodes__without_the_kernel_module_are_missing(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	SKIP_UNLESS(geteuid() == 0, "only root may make device nodes");
	write_driver_file("devices",
		"Character devices:\n195 nvidia\n\nBlock devices:\n510 nvidia-uvm\n", 0644);
	assert_ok(dir_make(make_path("dev"), 0755, &err), &err);
	make_node("dev/nvidiactl", 195, 255);
	assert_error(
		dev_nodes_check(make_path("dev"), make_path("devices"), NULL, true, true, &err),
		&err, "no loaded kernel module has the device 'nvidia-uvm'");
	assert_ok(dev_nodes_check(make_path("dev"), NULL, NULL, false, false, &err), &err);
	write_driver_file("dev/nvidia-uvm", "x", 0644);
	assert_error(dev_nodes_check(make_path("dev"), NULL, NULL, false, true, &err), &err,
		"is not a character device");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(root__is_the_node_where_nvidia_smi_can_be_run),
		TEST(root__is_not_the_node_where_nvidia_smi_is_invalid),
		TEST(root__follows_links_as_the_node_does),
		TEST(root__of_a_driver_container_needs_the_library),
		TEST(smi__of_a_container_runs_with_its_library_in_front),
		TEST(flag__is_read_as_shell_or_yaml),
		TEST(dev_char__links_each_node_and_corrects_wrong_links),
		TEST(dev_char__reports_which_link_could_not_be_created),
		TEST(missing_nodes__are_created_with_the_numbers_of_the_kernel),
		TEST(nodes__without_the_kernel_module_are_missing),
	};

	return cmocka_run_group_tests_name("validate-driver", tests, NULL, NULL);
}

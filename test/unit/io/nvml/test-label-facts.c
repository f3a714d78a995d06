/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/gpu/vgpu.h"
#include "io/nvml/label-facts.h"

#include <limits.h>

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

static void write_file(const char *name, const void *data, size_t len)
{
	test_write(dir, name, data, len, 0644);
}

static void write_device(const char *address, const char *vendor, const unsigned char *space,
	size_t len)
{
	char name[128];

	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/vendor", address);
	write_file(name, vendor, strlen(vendor));
	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/config", address);
	write_file(name, space, len);
}

static void read_facts(struct label_facts_store *s, const char *machine, struct strv *notes)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, machine);
	strv_clear(notes);
	assert_ok(label_facts_read(s, machine[0] ? path : "", dir, notes, &err), &err);
}

static void label_facts_read__trims_the_machine_type(void **state)
{
	struct label_facts_store s = { .machine = NULL };
	struct strv notes = STRV_INIT;
	char long_text[MACHINE_TYPE_MAX + 1];

	(void)state;
	write_file("machine", " \tp3.8xlarge two \r\n\n", 20);
	write_file("empty", "\n", 1);
	memset(long_text, 'x', sizeof(long_text));
	write_file("long", long_text, sizeof(long_text));
	write_file("bus/pci/devices/0000:00:00.0/vendor", "0x8086\n", 7);
	s.facts.timestamp_s = 5;
	read_facts(&s, "machine", &notes);
	assert_string_equal(s.facts.machine, "p3.8xlarge two");
	assert_int_equal(s.facts.timestamp_s, 5); /* the caller's */
	assert_int_equal(notes.n, 0);
	read_facts(&s, "empty", &notes);
	assert_string_equal(s.facts.machine, "");
	read_facts(&s, "", &notes); /* none is wanted */
	assert_null(s.facts.machine);
	assert_int_equal(notes.n, 0);
	read_facts(&s, "absent", &notes);
	assert_null(s.facts.machine);
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "machine type: open"));
	read_facts(&s, "long", &notes);
	assert_null(s.facts.machine);
	assert_int_equal(notes.n, 1);
	label_facts_fini(&s);
	strv_fini(&notes);
}

static void label_facts_read__detects_a_vgpu(void **state)
{
	static const unsigned char cap[] = { 0x09, 0, 0x1b, 'V', 'F', 0x00, 0x16, '4', '6', '0',
		'.', '1', '6', 0, 0, 0, 0, 'r', '4', '6', '0', '_', '0', '0', 0, 0, 0 };
	unsigned char space[PCI_CONFIG_MAX] = { [6] = 0x10, [0x34] = 0xd0 };
	struct label_facts_store s = { .machine = NULL };
	struct strv notes = STRV_INIT;

	(void)state;
	memcpy(space + 0xd0, cap, sizeof(cap));
	write_device("0000:00:01.0", "0x8086\n", space, 64); /* not NVIDIA's: not read */
	read_facts(&s, "", &notes);
	assert_int_equal(s.facts.vgpu, VGPU_ABSENT);
	assert_int_equal(notes.n, 0);
	write_device("0000:00:05.0", "0x10de\n", space, sizeof(space));
	read_facts(&s, "", &notes);
	assert_int_equal(s.facts.vgpu, VGPU_PRESENT);
	assert_string_equal(s.facts.vgpu_host_version, "460.16");
	assert_string_equal(s.facts.vgpu_host_branch, "r460_00");
	/* A device that cannot be read: nothing is reported, and no earlier value remains. */
	write_device("0000:00:06.0", "0x10de\n", space, 64);
	read_facts(&s, "", &notes);
	assert_int_equal(s.facts.vgpu, VGPU_UNKNOWN);
	assert_string_equal(s.facts.vgpu_host_version, "");
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.v[0], "no vgpu labels: read '"));
	assert_non_null(strstr(notes.v[0], "64 bytes"));
	label_facts_fini(&s);
	strv_fini(&notes);
}

static void label_facts_read__continues_without_sysfs(void **state)
{
	struct label_facts_store s = { .machine = NULL };
	struct error err = ERROR_INIT;
	struct strv notes = STRV_INIT;

	(void)state;
	assert_ok(label_facts_read(&s, NULL, "/nonexistent", &notes, &err), &err);
	assert_int_equal(s.facts.vgpu, VGPU_UNKNOWN);
	assert_int_equal(notes.n, 1);
	assert_ok(label_facts_read(&s, NULL, "/nonexistent", NULL, &err), &err);
	label_facts_fini(&s);
	strv_fini(&notes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(label_facts_read__trims_the_machine_type,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(label_facts_read__detects_a_vgpu, set_up,
			tear_down),
		cmocka_unit_test(label_facts_read__continues_without_sysfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

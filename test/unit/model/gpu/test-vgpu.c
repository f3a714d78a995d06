/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/gpu/vgpu.h"

/* Two configuration spaces as a vGPU has them, and broken ones. */

struct space {
	unsigned char b[PCI_CONFIG_STANDARD];
};

static struct space vgpu_space(void)
{
	static const unsigned char cap[] = { 0x09, 0x68, 0x1b, 'V', 'F', 0x00, 0x16, '4', '6',
		'0', '.', '1', '6', 0, 0, 0, 0, 'r', '4', '6', '0', '_', '0', '0', 0, 0, 0 };
	struct space s = { .b = { [6] = 0x10, [0x34] = 0xd0 } };

	memcpy(s.b + 0xd0, cap, sizeof(cap));
	s.b[0x68] = 0x05;
	return s;
}

/* 60 -> 68 -> 78 -> b4, the last a vendor's capability of length 20 without the signature. */
static struct space passthrough_space(void)
{
	struct space s = { .b = { [6] = 0x10,
				   [0x34] = 0x60,
				   [0x60] = 0x01,
				   [0x61] = 0x68,
				   [0x68] = 0x05,
				   [0x69] = 0x78,
				   [0x78] = 0x10,
				   [0x79] = 0xb4,
				   [0xb4] = 0x09,
				   [0xb6] = 0x14 } };

	return s;
}

static struct vgpu parse_vgpu(const struct space *s)
{
	struct error err = ERROR_INIT;
	struct vgpu v;

	assert_ok(vgpu_parse(&v, s->b, sizeof(s->b), &err), &err);
	return v;
}

static void vgpu_parse__reads_the_hosts_driver(void **state)
{
	struct space s = vgpu_space();
	struct vgpu v = parse_vgpu(&s);

	(void)state;
	assert_int_equal(v.state, VGPU_PRESENT);
	assert_string_equal(v.host_version, "460.16");
	assert_string_equal(v.host_branch, "r460_00");
}

static void vgpu_parse__detects_a_gpu_without_vgpu(void **state)
{
	struct space s = passthrough_space(), none = { .b = { 0 } };

	(void)state;
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
	assert_int_equal(parse_vgpu(&none).state, VGPU_ABSENT);
	s = vgpu_space();
	s.b[6] = 0; /* reports that it has no list */
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
	s = vgpu_space();
	s.b[0xd0] = 0x0a;
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
	s = vgpu_space();
	s.b[0xd4] = 'G';
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
}

static void vgpu_parse__requires_the_whole_space(void **state)
{
	struct space s = vgpu_space();
	struct error err = ERROR_INIT;
	struct vgpu v;

	(void)state;
	assert_error(vgpu_parse(&v, s.b, 255, &err), &err, "255 bytes");
	assert_int_equal(err.code, ERR_PERMISSION);
	assert_error(vgpu_parse(&v, NULL, 0, &err), &err, "0 bytes");
}

static void vgpu_parse__finds_the_record_among_others(void **state)
{
	struct space s = vgpu_space();
	struct vgpu v;

	(void)state;
	memmove(s.b + 0xd9, s.b + 0xd5, 22); /* behind a record 7 of 4 bytes */
	memcpy(s.b + 0xd5, "\x07\x04\xaa\xbb", 4);
	s.b[0xd2] = (unsigned char)(s.b[0xd2] + 4);
	v = parse_vgpu(&s);
	assert_int_equal(v.state, VGPU_PRESENT);
	assert_string_equal(v.host_version, "460.16");
}

static void vgpu_parse__ends_with_malformed_lists(void **state)
{
	struct space s = passthrough_space();

	(void)state;
	s.b[0x79] = 0x60; /* a loop */
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
	s = passthrough_space();
	s.b[0x78] = 0xff; /* broken: the parser does not read what follows */
	s.b[0xb7] = 'V';
	s.b[0xb8] = 'F';
	assert_int_equal(parse_vgpu(&s).state, VGPU_ABSENT);
	s.b[0x78] = 0x10;
	assert_int_equal(parse_vgpu(&s).state, VGPU_PRESENT);
	for (unsigned at = 0xf0; at <= 0xff; at++) { /* at the end of the space */
		memset(&s, 0, sizeof(s));
		s.b[6] = 0x10;
		s.b[0x34] = (unsigned char)at;
		memset(s.b + at, 0x09, sizeof(s.b) - at);
		(void)parse_vgpu(&s);
	}
}

static void vgpu_parse__ends_with_malformed_records(void **state)
{
	static const unsigned char lengths[] = { 0, 1, 2, 21, 23, 255 };
	struct space s;
	struct vgpu v;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths); i++) {
		s = vgpu_space();
		s.b[0xd6] = lengths[i]; /* 23 and 255 are longer than the capability */
		v = parse_vgpu(&s);
		assert_int_equal(v.state, VGPU_PRESENT);
		assert_string_equal(v.host_version, "");
		assert_string_equal(v.host_branch, "");
	}
	s = vgpu_space();
	s.b[0xd5] = 1; /* another record that does not end */
	s.b[0xd6] = 0;
	assert_string_equal(parse_vgpu(&s).host_version, "");
	s = vgpu_space();
	s.b[0xd2] = 0x05; /* no records */
	assert_string_equal(parse_vgpu(&s).host_version, "");
	assert_int_equal(parse_vgpu(&s).state, VGPU_PRESENT);
}

static void vgpu_parse__returns_legal_label_values(void **state)
{
	struct space s = vgpu_space();
	struct vgpu v;

	(void)state;
	memcpy(s.b + 0xd7, "\n460\xff.16\x01z", 10); /* ten bytes, no end */
	memcpy(s.b + 0xe1, "-branch-..", 10);
	v = parse_vgpu(&s);
	assert_string_equal(v.host_version, "460.16z");
	assert_string_equal(v.host_branch, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vgpu_parse__reads_the_hosts_driver),
		cmocka_unit_test(vgpu_parse__detects_a_gpu_without_vgpu),
		cmocka_unit_test(vgpu_parse__requires_the_whole_space),
		cmocka_unit_test(vgpu_parse__finds_the_record_among_others),
		cmocka_unit_test(vgpu_parse__ends_with_malformed_lists),
		cmocka_unit_test(vgpu_parse__ends_with_malformed_records),
		cmocka_unit_test(vgpu_parse__returns_legal_label_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

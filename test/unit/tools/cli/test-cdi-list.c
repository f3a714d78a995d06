/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "tools/cli/cdi-list/cdi-list.h"

#define HEAD    "cdiVersion: 0.3.0\nkind: vendor.com/class\n"
#define DEVICES "devices: [{name: x, containerEdits: {env: [a=b]}}]\n"

static int parse_cdi_list(struct cdi_listed *l, const char *text, struct error *err)
{
	return cdi_list_parse(l, "f", text, strlen(text), err);
}

static void cdi_list_parse__reads_json_and_yaml(void **state)
{
	static const char *const texts[] = {
		HEAD
		"devices:\n"
		"- name: \"0\"\n  containerEdits: {deviceNodes: [{path: /dev/x}]}\n"
		"- name: a:b\n  containerEdits:\n    mounts: [{hostPath: /, containerPath: /}]\n",
		"{\"cdiVersion\": \"1.1.0\", \"kind\": \"vendor.com/class\", \"devices\": ["
		"{\"name\": \"0\", \"containerEdits\": {\"hooks\": [{}]}},"
		"{\"name\": \"a:b\", \"annotations\": {}, \"containerEdits\": {\"intelRdt\": {}}}],"
		"\"containerEdits\": null, \"annotations\": {}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct error err = ERROR_INIT;
		struct cdi_listed l;

		assert_ok(parse_cdi_list(&l, texts[i], &err), &err);
		assert_string_equal(l.kind, "vendor.com/class");
		assert_int_equal(l.devices.n, 2);
		assert_string_equal(l.devices.v[0], "0");
		assert_string_equal(l.devices.v[1], "a:b");
		cdi_listed_fini(&l);
	}
}

static void cdi_list_parse__reports_errors_with_their_place(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "f:1:1: expected one CDI specification, found 0 documents" },
		{ HEAD DEVICES "---\n" HEAD DEVICES, "found 2 documents" },
		{ "[]", "f:1:1: specification: expected an object, found []" },
		{ "{", "expected YAML or JSON" },
		{ HEAD DEVICES "other: 1\n",
			"f:4:1: specification: CDI has no key 'other' here" },
		{ "cdiVersion: 0.3\nkind: a/b\n" DEVICES,
			"f:1:13: cdiVersion: expected a text such as \"0.5.0\", found 0.3" },
		{ "cdiVersion: 0.3.0.1\nkind: a/b\n" DEVICES, "cdiVersion: expected" },
		{ "cdiVersion: 0.3.0\nkind: a\n" DEVICES,
			"f:2:7: kind: expected \"vendor/class\", found \"a\"" },
		{ "cdiVersion: 0.3.0\nkind: 0a/b\n" DEVICES, "kind: expected" },
		{ "cdiVersion: 0.3.0\nkind: a/b/c\n" DEVICES, "kind: expected" },
		{ "cdiVersion: 0.3.0\nkind: a/b:c\n" DEVICES, "kind: expected" },
		{ "cdiVersion: 0.3.0\nkind: a/\n" DEVICES, "kind: expected" },
		{ HEAD, "devices: expected a list of at least one device" },
		{ HEAD "devices: []\n", "f:3:10: devices: expected a list of at least one" },
		{ HEAD "devices: [{name: -x, containerEdits: {env: [a=b]}}]\n",
			"f:3:18: name: expected a text of letters, digits" },
		{ HEAD "devices: [{name: 0, containerEdits: {env: [a=b]}}]\n",
			"name: expected a text" },
		{ HEAD "devices: [{name: x, containerEdits: {env: []}}]\n",
			"f:3:11: device 'x' has no containerEdits" },
		{ HEAD "devices: [{name: x}]\n", "device 'x' has no containerEdits" },
		{ HEAD "devices: [{name: x, containerEdits: {env: a}}]\n",
			"env: expected a list, found \"a\"" },
		{ HEAD "devices: [{name: x, containerEdits: {envs: []}}]\n",
			"containerEdits: CDI has no key 'envs' here" },
		{ HEAD "devices: [{name: x, containerEdits: {env: [a]}}, {name: x, "
		       "containerEdits: {env: [a]}}]\n",
			"device 'x' is there twice" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct cdi_listed l;

		assert_error(parse_cdi_list(&l, rows[i].text, &err), &err, rows[i].want);
		cdi_listed_fini(&l);
	}
}

static void cdi_list_parse__has_a_limit(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;
	struct cdi_listed l;

	(void)state;
	buf_puts(&b, HEAD "devices: [{}");
	for (int i = 0; i < CDI_LIST_DEVICES_MAX; i++)
		buf_puts(&b, ",{}");
	buf_puts(&b, "]\n");
	assert_error(parse_cdi_list(&l, buf_str(&b), &err), &err, "devices: expected at most");
	assert_int_equal(err.code, ERR_LIMIT);
	cdi_listed_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cdi_list_parse__reads_json_and_yaml),
		cmocka_unit_test(cdi_list_parse__reports_errors_with_their_place),
		cmocka_unit_test(cdi_list_parse__has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/checkpoint.h"

#include "abi/slice-dir.h"
#include "node/agent/slices/file.h"
#include "lib/base/buf.h"

#include <jansson.h>
#include <string.h>

#define RESPONSE_MAX (1 << 20) /* of one answer to Allocate */

static int decode_base64_digit(char c)
{
	static const char all[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(all, c) : NULL;

	return at ? (int)(at - all) : -1;
}

/* Base64 with or without padding; stops at the first other character. */
static void decode_base64(struct buf *to, const char *text)
{
	uint32_t bits = 0;
	int n = 0;

	for (; decode_base64_digit(*text) >= 0; text++) {
		bits = bits << 6 | (uint32_t)decode_base64_digit(*text);
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_putc(to, (char)(bits >> n & 0xff));
		}
	}
}

int slice_ids_in(struct strv *ret, const char *text, size_t len, struct error *err)
{
	static const char mark[] = "/" SLICES_DIR "/";
	const char *p = text, *end = p + len;

	while ((p = memmem(p, (size_t)(end - p), mark, sizeof(mark) - 1)) != NULL) {
		char id[SLICE_ID_DIGITS + 1] = "";

		p += sizeof(mark) - 1;
		if ((size_t)(end - p) < SLICE_ID_DIGITS)
			break;
		memcpy(id, p, SLICE_ID_DIGITS);
		if (slice_id_ok(id) && strv_add(ret, id, err) < 0)
			return -1;
	}
	return 0;
}

int slice_checkpoint_ids(struct strv *ret, const char *text, size_t len, struct error *err)
{
	json_error_t where;
	json_t *root = json_loadb(text, len, 0, &where);
	const json_t *data = json_object_get(root, "Data");
	const json_t *entries = json_object_get(data, "PodDeviceEntries");
	int r = 0;

	/* null: no pod has a device */
	if (!json_is_array(entries) && !json_is_null(entries)) {
		json_decref(root);
		return error_set(err, ERR_INVALID,
			"the kubelet's checkpoint has no Data.PodDeviceEntries");
	}
	for (size_t i = 0; r == 0 && i < json_array_size(entries); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(RESPONSE_MAX);
		const char *answer = json_string_value(
			json_object_get(json_array_get(entries, i), "AllocResp"));

		if (!answer) {
			r = error_set(err, ERR_INVALID,
				"the kubelet's checkpoint has an entry without AllocResp");
			break;
		}
		decode_base64(&b, answer);
		r = buf_ok(&b) ? slice_ids_in(ret, buf_str(&b), b.len, err) : error_nomem(err);
	}
	json_decref(root);
	return r;
}

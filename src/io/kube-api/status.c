/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/internal.h"

#include <stdio.h>
#include <string.h>

enum error_code api_code_of_status(int status)
{
	static const struct {
		int status;
		enum error_code code;
	} rows[] = {
		{ 401, ERR_PERMISSION },
		{ 403, ERR_PERMISSION },
		{ 404, ERR_NOT_FOUND },
		{ 405, ERR_UNSUPPORTED },
		{ 406, ERR_UNSUPPORTED },
		{ 408, ERR_TIMEOUT },
		{ 409, ERR_EXISTS },
		{ 410, ERR_NOT_FOUND },
		{ 413, ERR_LIMIT },
		{ 415, ERR_UNSUPPORTED },
		{ 429, ERR_UNAVAILABLE },
		{ 504, ERR_TIMEOUT },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].code;
	switch (status / 100) {
	case 2:
		return ERR_NONE;
	case 3:
		return ERR_UNSUPPORTED; /* an API server does not redirect clients */
	case 4:
		return ERR_INVALID;
	default:
		return ERR_UNAVAILABLE;
	}
}

void api_printable(char *ret, size_t cap, const char *text)
{
	size_t n = 0;

	for (; n < cap - 1 && n < API_TEXT_MAX && text[n]; n++)
		ret[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	ret[n] = '\0';
}

const char *api_shown(char ret[API_SHOWN_MAX], const char *text)
{
	api_printable(ret, API_SHOWN_MAX, text);
	return ret;
}

static int set_no_answer_error(const struct api_transfer *t, const char *what,
	struct error *err)
{
	char why[API_TEXT_MAX + 1];

	if (!buf_ok(t->body))
		return error_set(err, ERR_LIMIT, "%s: the answer is larger than %zu bytes",
			what, t->body->max);
	if (t->result == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ERR_TIMEOUT, "%s: no answer in time", what);
	if (t->result == CURLE_OUT_OF_MEMORY)
		return error_nomem(err);
	/* libcurl's own text has the elapsed milliseconds: it would differ each time. */
	if (t->result == CURLE_COULDNT_CONNECT)
		return error_set(err, ERR_UNAVAILABLE, "%s: connect: %s", what,
			t->sys ? strerror(t->sys) : "no connection");
	api_printable(why, sizeof(why),
		*t->why ? t->why : t->api->curl->easy_strerror(t->result));
	return error_set(err, ERR_UNAVAILABLE, "%s: %s", what, why);
}

int api_transfer_error(const struct api_transfer *t, const char *method, const char *path,
	const json_t *body, struct error *err)
{
	const char *message = json_string_value(json_object_get(body, "message"));
	char what[ERROR_MSG_MAX / 2], text[API_TEXT_MAX + 1];
	int path_len = (int)strcspn(path, "?");

	(void)snprintf(what, sizeof(what), "%s '%.80s%.*s'", method, t->api->config.server,
		path_len < 120 ? path_len : 120, path);
	if (t->result != CURLE_OK)
		return set_no_answer_error(t, what, err);
	if (t->status / 100 == 2)
		return 0;
	if (!message || !*message)
		return error_set(err, api_code_of_status(t->status),
			"%s: the API server answers %d", what, t->status);
	api_printable(text, sizeof(text), message);
	return error_set(err, api_code_of_status(t->status),
		"%s: the API server answers %d: %s", what, t->status, text);
}

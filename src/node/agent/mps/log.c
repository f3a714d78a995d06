/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/log.h"

#include "lib/base/parse.h"

#include <stdlib.h>
#include <string.h>

#define PID_DIGITS_MAX 10

struct mps_log_sink {
	void (*on_event)(void *arg, const struct mps_log_event *e);
	void *arg;
};

static void notify_mps_log_event(const struct mps_log_sink *s, enum mps_log_kind kind,
	uint32_t pid, const char *text)
{
	const struct mps_log_event e = { .kind = kind, .pid = pid, .text = text };

	s->on_event(s->arg, &e);
}

uint32_t mps_pid(const char *text, size_t len)
{
	char digits[PID_DIGITS_MAX + 1];
	uint32_t pid;

	if (len > PID_DIGITS_MAX)
		return 0;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return parse_u32(digits, &pid) && pid <= INT32_MAX ? pid : 0;
}

/* Parses the PID at *text and moves *text behind the digits; 0: no PID. */
static uint32_t parse_log_pid(const char **text)
{
	size_t n = strspn(*text, "0123456789");
	uint32_t pid = mps_pid(*text, n);

	*text += n;
	return pid;
}

static bool skip_mps_log_word(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n) != 0)
		return false;
	*text += n;
	return true;
}

/*
 * The patterns match the beginning of a line. A '#' is a PID; an event gets the first one of its line. A '*' is
 * any text up to the rest of the pattern.
 */
static const struct pattern {
	const char *text;
	enum mps_log_kind kind;
} patterns[] = {
	{ "Client {PID: #, Context ID: 0} connected", MPS_LOG_CONNECTED },
	{ "Client process # disconnected", MPS_LOG_DISCONNECTED },
	{ "Server is handling a fatal GPU error", MPS_LOG_FAULT },
	{ "Client {PID: #, Context*encountered a fatal GPU error", MPS_LOG_NAMED },
	{ "NEW SERVER #: Ready", MPS_LOG_SERVER_READY },
	{ "Server # exited with status", MPS_LOG_SERVER_DIED },
	{ "Failed to ", MPS_LOG_COMPLAINT },
	{ "Cannot ", MPS_LOG_COMPLAINT },
	{ "Insufficient privileges", MPS_LOG_COMPLAINT },
	{ "Unable to ", MPS_LOG_COMPLAINT },
	{ "Server encountered a fatal exception", MPS_LOG_COMPLAINT },
};

static bool is_mps_log_match(const char *pattern, const char *text, uint32_t *ret_pid)
{
	char piece[MPS_LOG_LINE_MAX];

	*ret_pid = 0;
	while (*pattern) {
		size_t n = strcspn(pattern, "#*");

		memcpy(piece, pattern, n);
		piece[n] = '\0';
		if (!skip_mps_log_word(&text, piece))
			return false;
		pattern += n;
		if (*pattern == '#') {
			*ret_pid = parse_log_pid(&text);
			if (!*ret_pid)
				return false;
			pattern++;
		} else if (*pattern == '*') {
			pattern++;
			text = strstr(text, pattern);
			return text != NULL;
		}
	}
	return true;
}

/* The text behind "[date time Server   609] "; NULL: no such prefix. *ret_pid: the writer's PID. */
static const char *body_of(const char *line, uint32_t *ret_pid)
{
	const char *end = strstr(line, "] "), *pid = end;

	if (line[0] != '[' || !end)
		return NULL;
	while (pid > line && pid[-1] >= '0' && pid[-1] <= '9')
		pid--;
	*ret_pid = parse_log_pid(&pid);
	return end + 2;
}

static void parse_server_end(struct mps_log *l, uint32_t pid, const struct mps_log_sink *s)
{
	bool asked = pid == l->ending_pid;

	notify_mps_log_event(s, asked ? MPS_LOG_SERVER_ENDED : MPS_LOG_SERVER_DIED, pid, NULL);
	l->ending_pid = 0;
}

static void parse_log_body(struct mps_log *l, const char *text, uint32_t writer,
	const struct mps_log_sink *s)
{
	uint32_t pid;

	/* The list of processes that the fault hit consists of lines with a number alone. */
	if (l->lists_faulted && text[0] && text[strspn(text, "0123456789")] == '\0') {
		pid = parse_log_pid(&text);
		if (pid)
			notify_mps_log_event(s, MPS_LOG_CLIENT_FAULTED, pid, NULL);
		return;
	}
	l->lists_faulted = strstr(text, "have a sticky error set") != NULL;
	if (!strcmp(text, "Exiting"))
		l->ending_pid = writer;
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		if (!is_mps_log_match(patterns[i].text, text, &pid))
			continue;
		if (patterns[i].kind == MPS_LOG_SERVER_DIED)
			parse_server_end(l, pid, s);
		else
			notify_mps_log_event(s, patterns[i].kind, pid, text);
		return;
	}
}

static void parse_mps_log_line(struct mps_log *l, const struct mps_log_sink *s)
{
	uint32_t writer = 0;
	const char *text = buf_ok(&l->line) ? body_of(buf_str(&l->line), &writer) : NULL;

	if (text)
		parse_log_body(l, text, writer, s);
	buf_clear(&l->line);
}

void mps_log_init(struct mps_log *l)
{
	*l = (struct mps_log){ .line = BUF_INIT(MPS_LOG_LINE_MAX) };
}

void mps_log_fini(struct mps_log *l)
{
	buf_fini(&l->line);
}

void mps_log_feed(struct mps_log *l, const char *data, size_t len,
	void (*on_event_)(void *arg, const struct mps_log_event *e), void *arg)
{
	const struct mps_log_sink s = { .on_event = on_event_, .arg = arg };

	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		size_t part = end ? (size_t)(end - data) : len;

		buf_add(&l->line, data, part);
		if (end)
			parse_mps_log_line(l, &s);
		part += end != NULL;
		data += part;
		len -= part;
	}
}

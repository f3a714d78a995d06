/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/run/clients.h"

#include "node/agent/mps/client-text.h"
#include "lib/base/parse.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (4 << 20)
#define LINE_MAX 32

/* For all files of one process. */
static const struct procfs_budget whole_budget = {
	.file_bytes = FILE_MAX,
	.file_cpu_ns = 50 * NS_PER_MS,
	.cpu_ns = 150 * NS_PER_MS,
	.end_ns = NS_PER_SEC, /* from the question on */
};

/* Of a file beyond its bounds, the beginning counts as the whole. */
static bool read_client_proc_file(struct buf *b, uint32_t pid, const char *file,
	struct procfs_budget *left)
{
	return procfs_read(b, "/proc", pid, file, left) != PROCFS_GONE && b->len > 0;
}

static void find_pod(struct buf *b, uint32_t pid, struct procfs_budget *left,
	char ret[MPS_POD_UID_MAX])
{
	ret[0] = '\0';
	if (read_client_proc_file(b, pid, "cgroup", left) &&
		mps_cgroup_pod_uid(buf_str(b), ret))
		return;
	if (read_client_proc_file(b, pid, "mountinfo", left))
		(void)mps_mounts_pod_uid(buf_str(b), ret);
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* The process may have written anything there: a value that cannot be device IDs counts as none. */
static void find_client_devices(struct buf *b, uint32_t pid, struct procfs_budget *left,
	char ret[MPS_DEVICES_MAX])
{
	const char *value = NULL;

	if (read_client_proc_file(b, pid, "environ", left))
		value = mps_environ_find(buf_str(b), b->len, MPS_DEVICES_VARIABLE);
	if (!value || strlen(value) >= MPS_DEVICES_MAX || !is_printable(value))
		value = "";
	(void)snprintf(ret, MPS_DEVICES_MAX, "%s", value);
}

static int print_client_pod(struct buf *b, uint32_t pid, struct error *err)
{
	struct procfs_budget left = whole_budget;
	char pod[MPS_POD_UID_MAX], devices[MPS_DEVICES_MAX];

	left.end_ns += time_mono_ns();
	find_pod(b, pid, &left, pod);
	find_client_devices(b, pid, &left, devices);
	if (printf("%u %s %s\n", (unsigned)pid, *pod ? pod : "-", *devices ? devices : "-") <
			0 ||
		fflush(stdout) != 0)
		return error_sys(err, errno, "write");
	return 0;
}

int clients_serve(struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FILE_MAX);
	char line[LINE_MAX];
	uint32_t pid;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!parse_u32(line, &pid))
			return error_set(err, ERR_INVALID,
				"standard input: expected a PID, found \"%s\"", line);
		if (print_client_pod(&b, pid, err) < 0)
			return -1;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reports NVML's figures of each process to the arbiter, in place of the agent (src/abi/arbiter-control.h).
 *
 *	cuda-feed RUN_DIR/arbiter.sock
 *
 * Ends when the arbiter does, or connects to it again with --again.
 */
#include "cuda/driver.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to_arbiter(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

/* Adds a list's processes; one in both lists stands there once, with the larger figure. */
static void add_feed_processes(json_t *list, const nvmlProcessInfo_t *infos, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		json_int_t bytes = (json_int_t)infos[i].usedGpuMemory;
		json_t *old;
		size_t at;
		bool there = false;

		if (infos[i].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE)
			continue;
		json_array_foreach(list, at, old)
		{
			if (json_integer_value(json_object_get(old, "pid")) != infos[i].pid)
				continue;
			there = true;
			if (json_integer_value(json_object_get(old, "bytes")) < bytes)
				(void)json_object_set_new(old, "bytes", json_integer(bytes));
		}
		if (!there)
			(void)json_array_append_new(list,
				json_pack("{s:I, s:I}", "pid", (json_int_t)infos[i].pid,
					"bytes", bytes));
	}
}

static json_t *reading_of(const char *uuid)
{
	static nvmlProcessInfo_t infos[PHYSICAL_MAX];
	unsigned int n = PHYSICAL_MAX;
	json_t *list = json_array();
	nvmlDevice_t device;
	nvmlReturn_t r = nvml.nvmlDeviceGetHandleByUUID(uuid, &device);

	if (r == NVML_SUCCESS)
		r = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos);
	if (r == NVML_SUCCESS) {
		add_feed_processes(list, infos, n);
		n = PHYSICAL_MAX;
		r = nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &n, infos);
		if (r == NVML_SUCCESS)
			add_feed_processes(list, infos, n);
	}
	if (r != NVML_SUCCESS) {
		json_decref(list);
		return json_pack("{s:s, s:s}", "uuid", uuid, "error", "NVML failed");
	}
	return json_pack("{s:s, s:o}", "uuid", uuid, "processes", list);
}

static void answer_question(FILE *out, json_t *question)
{
	json_t *gpus = json_array(), *uuid, *reply;
	size_t i;

	json_array_foreach(json_object_get(question, "gpus"), i, uuid)(void)
		json_array_append_new(gpus, reading_of(json_string_value(uuid)));
	reply = json_pack("{s:s, s:O, s:o}", "op", "reading", "seq",
		json_object_get(question, "seq"), "gpus", gpus);
	(void)json_dumpf(reply, out, JSON_COMPACT);
	(void)fputc('\n', out);
	(void)fflush(out);
	json_decref(reply);
}

static void serve_questions(int fd)
{
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	char *line = NULL;
	size_t size = 0;

	if (!in || !out)
		die("no memory");
	(void)fputs("{\"op\": \"readings\"}\n", out);
	(void)fflush(out);
	while (getline(&line, &size, in) > 0) {
		json_t *question = json_loads(line, 0, NULL);
		const char *op = json_string_value(json_object_get(question, "op"));

		if (op && strcmp(op, "read") == 0)
			answer_question(out, question);
		if (op && strcmp(op, "error") == 0)
			(void)printf("feed error=%s", line);
		json_decref(question);
	}
	free(line);
	(void)fclose(in);
	(void)fclose(out);
}

static void on_term(int number)
{
	(void)number;
	_exit(0);
}

int main(int argc, char **argv)
{
	bool again = argc == 3 && strcmp(argv[2], "--again") == 0;

	if (argc < 2)
		die("usage: cuda-feed SOCKET [--again]");
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGTERM, on_term);
	nvml_open();
	do {
		int fd = connect_to_arbiter(argv[1]);

		if (fd >= 0)
			serve_questions(fd);
		else if (!again)
			die("no arbiter at %s", argv[1]);
		else
			sleep_us(20000);
	} while (again);
	(void)printf("feed result=ok\n");
	return 0;
}
